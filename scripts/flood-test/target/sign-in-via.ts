import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Answer, JSON_CONTENT, parseReply } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { type FloodTarget, from } from './open-target.ts'

const LONGEST_MS = 60_000
const PAUSE_MS = 100

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

/**
 * One sign-in from a network, tried again as long as the service is overloaded: it says so, or the connection ends.
 * @throws Error if it is for a minute
 */
export async function tryPassword(
  { proxy }: FloodTarget,
  credentials: Credentials,
  network: string,
): Promise<Answer> {
  const request = {
    method: 'POST' as const,
    path: '/api/auth/login',
    headers: { ...JSON_CONTENT, ...from(network) },
    body: JSON.stringify(credentials),
  }
  const deadline = performance.now() + LONGEST_MS
  while (performance.now() < deadline) {
    const answer = await proxy.send(request).catch(() => null)
    if (answer && answer.status !== 503) return answer
    await sleep(PAUSE_MS)
  }
  throw new Error('no sign-in was answered for a minute')
}
