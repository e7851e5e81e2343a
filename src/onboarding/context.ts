import type { Context as Shared } from '../context.ts'
import type { Client } from '../limits/client.ts'
import type { LimitState } from '../limits/list.ts'
import { byNetwork } from '../limits/subject.ts'
import type { KnownClients } from '../sign-in/known-clients.ts'

/** Each step of onboarding is limited. */

export interface Context extends Shared {
  knownClients: KnownClients
}

/** Its time in milliseconds. */
export interface Received {
  client: Client
  now: number
}

/** @throws Problem rate_limited */
export async function countAttempt(
  { counters, config }: Context,
  { client, now }: Received,
): Promise<LimitState> {
  return await counters.consume(config.limits.oneTimeTokens, byNetwork(client.network), now)
}
