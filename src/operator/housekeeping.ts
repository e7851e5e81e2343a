import type { Kysely } from 'kysely'
import {
  maintainAuditTrail,
  pruneAuditAddressesAcrossCompanies,
  pruneRefusedSignInsAcrossCompanies,
} from '../audit/prune-repository.ts'
import type { Database } from '../database/schema.ts'
import { pruneCounters } from '../limits/prune-repository.ts'
import { pruneMailsAcrossCompanies } from '../mail/prune-repository.ts'
import { pruneTokensAcrossCompanies } from '../one-time-token/prune-repository.ts'
import {
  BEFORE_ALL,
  pruneKnownClientsAcrossCompanies,
  pruneSessionsAcrossCompanies,
} from '../session/prune-repository.ts'
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
  auditAddresses: 90 * DAY_MS,
  refusedSignIns: 90 * DAY_MS,
  knownClients: 300_000,
  unverifiedCompanies: 7 * DAY_MS,
}

/** How many rows of each kind were deleted; of the audit trail, how many months. */
interface Pruned {
  sessions: number
  tokens: number
  counters: number
  mails: number
  auditMonths: number
  auditAddresses: number
  refusedSignIns: number
  knownClients: number
  companies: number
}

/** Runs until nothing is left to delete, or until the signal aborts; a later run deletes the rest. */
export async function pruneAcrossCompanies(
  {
    db,
    system,
    config: { auditRetentionDays },
  }: { db: Kysely<Database>; system: System; config: { auditRetentionDays: number } },
  now: number,
  signal?: AbortSignal,
): Promise<Pruned> {
  const before = (kept: number) => new Date(now - kept)

  async function repeat(prune: typeof pruneCounters, kept: number): Promise<number> {
    return await deleteAll((max) => prune(db, before(kept), max), signal)
  }

  async function pruneSessions(): Promise<number> {
    let deleted = 0
    let page = BEFORE_ALL
    do {
      page = await pruneSessionsAcrossCompanies(db, page, before(KEPT_MS.sessions))
      deleted += page.deleted
    } while (page.hasMore && !signal?.aborted)
    return deleted
  }

  return {
    tokens: await repeat(pruneTokensAcrossCompanies, KEPT_MS.tokens),
    counters: await repeat(pruneCounters, KEPT_MS.counters),
    mails: await repeat(pruneMailsAcrossCompanies, KEPT_MS.mails),
    auditAddresses: await repeat(pruneAuditAddressesAcrossCompanies, KEPT_MS.auditAddresses),
    refusedSignIns: await repeat(pruneRefusedSignInsAcrossCompanies, KEPT_MS.refusedSignIns),
    knownClients: await repeat(pruneKnownClientsAcrossCompanies, KEPT_MS.knownClients),
    companies: await deleteDueCompaniesAcrossCompanies(
      { db, system },
      { before: before(KEPT_MS.unverifiedCompanies), now, signal },
    ),
    sessions: await pruneSessions(),
    auditMonths: await maintainAuditTrail(db, auditRetentionDays),
  }
}
