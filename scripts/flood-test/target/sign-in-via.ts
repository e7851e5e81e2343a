import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { JSON_CONTENT, parseReply } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { type FloodTarget, from } from './open-target.ts'

const LoginReply = TypeCompiler.Compile(Type.Object({ accessToken: Type.String() }))

/** Signs a member in from a network; returns the access token. */
export async function signInVia(
  target: FloodTarget,
  credentials: Credentials,
  network: string,
): Promise<string> {
  const { status, text } = await tryPassword(target, credentials, network)
  if (status !== 200) throw new Error(`a sign-in was answered ${status}: ${text}`)
  return parseReply(LoginReply, JSON.parse(text)).accessToken
}

/** One sign-in from a network, tried again as long as the service is overloaded. */
export async function tryPassword(
  { proxy }: FloodTarget,
  credentials: Credentials,
  network: string,
): Promise<{ status: number; text: string }> {
  for (;;) {
    const answer = await proxy.send({
      method: 'POST',
      path: '/api/auth/login',
      headers: { ...JSON_CONTENT, ...from(network) },
      body: JSON.stringify(credentials),
    })
    if (answer.status !== 503) return answer
  }
}
