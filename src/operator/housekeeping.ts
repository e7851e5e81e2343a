import type { Kysely } from 'kysely'
import {
  maintainAuditTrail,
  pruneAuditAddressesAcrossCompanies,
  pruneRefusedSignInsAcrossCompanies,
} from '../audit/prune-repository.ts'
import { codeOf } from '../database/faults.ts'
import type { Database } from '../database/schema.ts'
import { pruneCounters } from '../limits/prune-repository.ts'
import { pruneMailsAcrossCompanies } from '../mail/prune-repository.ts'
import { pruneInvitationsAcrossCompanies } from '../member/prune-repository.ts'
import { pruneTokensAcrossCompanies } from '../one-time-token/prune-repository.ts'
import {
  pruneMailboxCodesAcrossCompanies,
  pruneUnconfirmedAcrossCompanies,
  pruneUsedChallenges,
} from '../second-factor/prune-repository.ts'
import {
  BEFORE_ALL,
  pruneKnownClientsAcrossCompanies,
  pruneSessionsAcrossCompanies,
} from '../session/prune-repository.ts'
import {
  pruneFormerSecretsAcrossCompanies,
  pruneRefusedRequestsAcrossCompanies,
} from '../signing-secret/prune-repository.ts'
import type { System } from '../system.ts'
import { deleteAll } from './bounded-deletion.ts'
import { deleteDueCompaniesAcrossCompanies } from './company-deletion.ts'

/**
 * Housekeeping: deletes rows that are no longer needed, a bounded number per statement, so that locks are
 * short. It can be interrupted, repeated and run concurrently: each run skips the locked rows of the others.
 * Events stay. Companies that nobody has verified are deleted.
 */

const DAY_MS = 86_400_000
/** How long rows are kept after they have ended or expired, or were sent or have failed. */
const KEPT_MS = {
  sessions: 30 * DAY_MS,
  mails: 7 * DAY_MS,
  // The clocks of instances differ, and a deleted counter starts again at zero.
  counters: 300_000,
  tokens: 300_000,
  invitations: 7 * DAY_MS,
  auditAddresses: 90 * DAY_MS,
  refusedSignIns: 90 * DAY_MS,
  knownClients: 300_000,
  usedChallenges: 300_000,
  mailboxCodes: 300_000,
  // More than an authenticator app can take to be set up.
  unconfirmedFactors: 7_200_000,
  formerSecrets: DAY_MS,
  refusedRequests: 7 * DAY_MS,
  unverifiedCompanies: 7 * DAY_MS,
}

/** How many rows of each kind were deleted; of the audit trail, how many months. */
interface Pruned {
  sessions: number
  tokens: number
  formerSecrets: number
  refusedRequests: number
  invitations: number
  counters: number
  mails: number
  auditMonths: number
  auditAddresses: number
  refusedSignIns: number
  knownClients: number
  usedChallenges: number
  mailboxCodes: number
  unconfirmedFactors: number
  companies: number
}

/** Some of it failed; the rest was done. The message has codes only, since messages of the database quote values. */
export class HousekeepingError extends Error {
  override name = 'HousekeepingError'

  constructor(failures: Map<string, unknown[]>) {
    const failed = [...failures].map(([step, [first, ...others]]) => {
      const code = codeOf(first) ?? (first instanceof Error ? first.name : 'unknown')
      return others.length === 0 ? `${step} (${code})` : `${step} (${code}, and ${others.length} more)`
    })
    super(`Housekeeping failed in part: ${failed.join(', ')}. What failed is tried again in the next run.`, {
      cause: [...failures.values()][0]?.[0],
    })
  }
}

/**
 * Runs until nothing is left to delete, or until the signal aborts; a later run deletes the rest. A step that fails,
 * or a company, does not keep the others from their turn.
 * @throws HousekeepingError at the end, if anything failed
 */
export async function pruneAcrossCompanies(
  {
    db,
    system,
    config: { auditRetentionDays },
  }: { db: Kysely<Database>; system: System; config: { auditRetentionDays: number } },
  now: number,
  signal?: AbortSignal,
): Promise<Pruned> {
  const failures = new Map<keyof Pruned, unknown[]>()
  const before = (kept: number) => new Date(now - kept)

  function noteFailure(step: keyof Pruned, error: unknown): void {
    const known = failures.get(step)
    if (known) known.push(error)
    else failures.set(step, [error])
  }

  async function attempt(step: keyof Pruned, run: () => Promise<number>): Promise<number> {
    try {
      return await run()
    } catch (error) {
      noteFailure(step, error)
      return 0
    }
  }

  function repeat(step: keyof typeof KEPT_MS & keyof Pruned, prune: typeof pruneCounters): Promise<number> {
    return attempt(step, () => deleteAll((max) => prune(db, before(KEPT_MS[step]), max), signal))
  }

  const pruned = {
    tokens: await repeat('tokens', pruneTokensAcrossCompanies),
    invitations: await repeat('invitations', pruneInvitationsAcrossCompanies),
    counters: await repeat('counters', pruneCounters),
    mails: await repeat('mails', pruneMailsAcrossCompanies),
    auditAddresses: await repeat('auditAddresses', pruneAuditAddressesAcrossCompanies),
    refusedSignIns: await repeat('refusedSignIns', pruneRefusedSignInsAcrossCompanies),
    formerSecrets: await repeat('formerSecrets', pruneFormerSecretsAcrossCompanies),
    refusedRequests: await repeat('refusedRequests', pruneRefusedRequestsAcrossCompanies),
    knownClients: await repeat('knownClients', pruneKnownClientsAcrossCompanies),
    usedChallenges: await repeat('usedChallenges', pruneUsedChallenges),
    mailboxCodes: await repeat('mailboxCodes', pruneMailboxCodesAcrossCompanies),
    unconfirmedFactors: await repeat('unconfirmedFactors', pruneUnconfirmedAcrossCompanies),
    companies: await attempt('companies', () =>
      deleteDueCompaniesAcrossCompanies(
        { db, system },
        {
          before: before(KEPT_MS.unverifiedCompanies),
          now,
          signal,
          onFailure: (error) => noteFailure('companies', error),
        },
      ),
    ),
    sessions: await attempt('sessions', () => pruneSessions(db, before(KEPT_MS.sessions), signal)),
    auditMonths: await attempt('auditMonths', () => maintainAuditTrail(db, auditRetentionDays)),
  }
  if (failures.size > 0) throw new HousekeepingError(failures)
  return pruned
}

async function pruneSessions(
  db: Kysely<Database>,
  before: Date,
  signal: AbortSignal | undefined,
): Promise<number> {
  let deleted = 0
  let page = BEFORE_ALL
  do {
    page = await pruneSessionsAcrossCompanies(db, page, before)
    deleted += page.deleted
  } while (page.hasMore && !signal?.aborted)
  return deleted
}
