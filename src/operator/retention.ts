import type { Config } from '../config/config.ts'
import { codeOf } from '../database/faults.ts'
import type { Context } from '../http/context.ts'
import { deleteDueCompaniesAcrossCompanies } from './company-deletion.ts'
import {
  deleteEventsAcrossCompanies,
  deleteLapsedAcrossCompanies,
  deleteSessionsAcrossCompanies,
  type Lapse,
  maintainAuditTrail,
} from './deletion-repository.ts'

/** Deletes rows by age. Runs can be interrupted and can overlap: each skips the rows that others lock. */

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

const RETENTION = [
  { name: 'tokens', table: 'one_time_tokens', since: 'expires_at', keptMs: 5 * MINUTE_MS },
  {
    name: 'invitations',
    table: 'invitations',
    // The other two are for invitations that were never sent.
    since: ['expires_at', 'renewed_at', 'created_at'],
    keptMs: 7 * DAY_MS,
  },
  // Not 0, because clocks differ and a deleted counter starts again at zero.
  { name: 'counters', table: 'rate_counters', since: 'window_ends_at', keptMs: 5 * MINUTE_MS },
  { name: 'mails', table: 'mail_outbox', since: ['sent_at', 'failed_at'], keptMs: 7 * DAY_MS },
  { name: 'auditAddresses', table: 'audit_addresses', since: 'occurred_at', keptMs: 90 * DAY_MS },
  // The audit page shows 90 days. The oldest of them must still be complete.
  { name: 'auditDays', table: 'audit_days', since: 'day', keptMs: 92 * DAY_MS },
  { name: 'refusedSignIns', table: 'refused_sign_ins', since: 'minute', keptMs: 90 * DAY_MS },
  { name: 'serviceSignIns', table: 'service_sign_ins', since: 'minute', keptMs: 90 * DAY_MS },
  { name: 'formerSecrets', table: 'former_signing_secrets', since: 'replaced_at', keptMs: DAY_MS },
  { name: 'refusedRequests', table: 'refused_requests', since: 'minute', keptMs: 7 * DAY_MS },
  { name: 'watchedEvents', table: 'watched_events', since: 'received_at', keptMs: 15 * MINUTE_MS },
  { name: 'knownClients', table: 'known_clients', since: 'known_until', keptMs: 5 * MINUTE_MS },
  { name: 'usedChallenges', table: 'used_passkey_challenges', since: 'expires_at', keptMs: 5 * MINUTE_MS },
  { name: 'formerHandles', table: 'company_handles', since: 'reserved_until', keptMs: 0 },
  { name: 'mailboxCodes', table: 'mailbox_codes', since: 'expires_at', keptMs: 5 * MINUTE_MS },
  {
    name: 'unconfirmedFactors',
    table: 'second_factors',
    since: 'created_at',
    unless: 'confirmed_at',
    keptMs: 120 * MINUTE_MS,
  },
] as const satisfies (Lapse & { name: string; keptMs: number })[]

const UNVERIFIED_KEPT_MS = 7 * DAY_MS
const SESSIONS_KEPT_MS = 30 * DAY_MS

type Step = (typeof RETENTION)[number]['name'] | 'sessions' | 'events' | 'companies' | 'auditMonths'

/** The other steps succeeded. The message has only codes, because database messages quote values. */
export class HousekeepingError extends Error {
  override name = 'HousekeepingError'

  constructor(failures: Map<string, unknown[]>) {
    const failed = [...failures].map(([step, [first, ...others]]) => {
      const code = codeOf(first) ?? (first instanceof Error ? first.name : 'unknown')
      return others.length === 0 ? `${step} (${code})` : `${step} (${code}, and ${others.length} more)`
    })
    super(`Housekeeping failed in part: ${failed.join(', ')}. The next run retries these steps.`, {
      cause: [...failures.values()][0]?.[0],
    })
  }
}

type Options = Pick<Context, 'db' | 'system'> & {
  config: Pick<Config, 'auditRetentionDays' | 'eventRetentionDays'>
}

export async function pruneEventsAcrossCompanies(
  { db, config: { eventRetentionDays: days } }: Pick<Options, 'db' | 'config'>,
  now: number,
  signal?: AbortSignal,
): Promise<number> {
  return days === undefined ? 0 : await deleteEventsAcrossCompanies(db, new Date(now - days * DAY_MS), signal)
}

/** @throws HousekeepingError at the end if a step or a company failed */
export async function pruneAcrossCompanies(
  { db, system, config }: Options,
  now: number,
  signal?: AbortSignal,
) {
  const pruned: Partial<Record<Step, number>> = {}
  const failures = new Map<Step, unknown[]>()
  const noteFailure = (step: Step, error: unknown) =>
    failures.set(step, [...(failures.get(step) ?? []), error])

  async function attempt(step: Step, run: () => Promise<number>): Promise<void> {
    try {
      pruned[step] = await run()
    } catch (error) {
      noteFailure(step, error)
    }
  }

  const ago = (ms: number) => new Date(now - ms)
  for (const { name, keptMs, ...lapse } of RETENTION)
    await attempt(name, () => deleteLapsedAcrossCompanies(db, lapse, ago(keptMs), signal))
  await attempt('sessions', () => deleteSessionsAcrossCompanies(db, ago(SESSIONS_KEPT_MS), signal))
  await attempt('events', () => pruneEventsAcrossCompanies({ db, config }, now, signal))
  const onFailure = (error: unknown) => noteFailure('companies', error)
  const run = { before: ago(UNVERIFIED_KEPT_MS), now, signal, onFailure }
  await attempt('companies', () => deleteDueCompaniesAcrossCompanies({ db, system }, run))
  await attempt('auditMonths', () => maintainAuditTrail(db, config.auditRetentionDays))
  if (failures.size > 0) throw new HousekeepingError(failures)
  return pruned
}
