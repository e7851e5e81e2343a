import type { Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Context as Shared } from '../context.ts'
import type { Database } from '../database/schema.ts'
import type { Client } from '../limits/client.ts'
import type { LimitState } from '../limits/list.ts'
import { byNetwork } from '../limits/subject.ts'
import type { KnownClients } from '../sign-in/known-clients.ts'

/** What every step of onboarding needs, and does: its attempts are limited and its effects are audited. */

export interface Context extends Shared {
  knownClients: KnownClients
}

/** The client of a request, and its time in milliseconds. */
export interface Received {
  client: Client
  now: number
}

/** Counts an attempt at a one-time token. @throws Problem rate_limited */
export async function countAttempt(
  { counters, config }: Context,
  { client, now }: Received,
): Promise<LimitState> {
  return await counters.consume(config.limits.oneTimeTokens, byNetwork(client.network), now)
}

/** Audits a step in the transaction of its effect. */
export async function auditStep(
  { system }: Context,
  tx: Transaction<Database>,
  companyId: string,
  about: { action: string; actor: string; details?: Record<string, unknown> | undefined },
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  await appendAudit(tx, companyId, newEntry(system, new Date(now), { ...about, outcome: 'done', ipAddress }))
}
