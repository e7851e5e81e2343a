import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import type { Answer } from '../../kit/client.ts'
import { type Credentials, loginRequest, replyOf } from '../../kit/operations.ts'
import { type FloodTarget, from } from './open-target.ts'

const LONGEST_MS = 60_000
const PAUSE_MS = 100

const LoginReply = Type.Object({ accessToken: Type.String() })

/** Signs a member in from a network; returns the access token. */
export async function signInVia(
  target: FloodTarget,
  credentials: Credentials,
  network: string,
): Promise<string> {
  return replyOf(LoginReply, 200, await tryPassword(target, credentials, network)).accessToken
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
  const request = loginRequest(credentials, from(network))
  const deadline = performance.now() + LONGEST_MS
  while (performance.now() < deadline) {
    const answer = await proxy.send(request).catch(() => null)
    if (answer && answer.status !== 503) return answer
    await sleep(PAUSE_MS)
  }
  throw new Error('no sign-in was answered for a minute')
}
