import type { Kysely } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { deleteAuditAddresses, deleteRefusedSignIns } from '../audit/prune-repository.ts'
import { appendAudit } from '../audit/repository.ts'
import { noSuchCompany } from '../company/problems.ts'
import * as companies from '../company/removal-repository.ts'
import type { Executor } from '../database/connect.ts'
import { codeOf, isOutage } from '../database/faults.ts'
import type { Database } from '../database/schema.ts'
import { deleteEvents } from '../ingest/prune-repository.ts'
import { deleteMails } from '../mail/prune-repository.ts'
import { deleteInvitations } from '../member/prune-repository.ts'
import { deleteTokens } from '../one-time-token/prune-repository.ts'
import { deleteSecondFactors } from '../second-factor/prune-repository.ts'
import { deleteSessions } from '../session/prune-repository.ts'
import { deleteRefusedRequests, deleteSecret } from '../signing-secret/prune-repository.ts'
import type { System } from '../system.ts'
import { auditOperator } from './audit.ts'
import { deleteAll, MAX_ROWS } from './bounded-deletion.ts'

/**
 * Deletion of companies: first a mark, from whose commit on nobody is let in, then the rows in bounded statements.
 * It can be interrupted at any point and run concurrently: housekeeping goes on with it. What stays is the
 * audit trail, without IP addresses and e-mails, until its retention ends.
 */

interface Context {
  db: Kysely<Database>
  system: System
}

const FOREIGN_KEY_VIOLATION = '23503'

/** How many rows of a company were deleted. */
interface Deleted {
  events: number
  sessions: number
  users: number
}

/** Deletes a company. @throws Problem not_found */
export async function deleteCompany(
  { db, system }: Context,
  companyId: string,
  now: number,
): Promise<Deleted> {
  await db.transaction().execute(async (tx) => {
    if (!(await companies.markDeleting(tx, companyId))) throw noSuchCompany()
    await auditOperator(tx, system, companyId, new Date(now), { action: 'company_delete' })
  })
  return await deleteRows(db, companyId)
}

/** A run through many companies. */
interface Run {
  signal?: AbortSignal | undefined
  /** Is told of a company that failed; the run goes on with the others. */
  onFailure(error: unknown): void
}

/**
 * Deletes companies that were opened before `before` and that nobody has verified since, and goes on with
 * deletions that have begun. Returns how many are gone for good.
 */
export async function deleteDueCompaniesAcrossCompanies(
  { db, system }: Context,
  { before, now, ...run }: Run & { before: Date; now: number },
): Promise<number> {
  for (let isDone = false; !isDone; ) {
    const unverified = await companies.listUnverifiedAcrossCompanies(db, before, MAX_ROWS)
    const marked = await countEach(unverified, run, (companyId) =>
      markUnverified({ db, system }, companyId, now),
    )
    isDone = unverified.length < MAX_ROWS || marked === 0
  }
  return await countEach(await companies.listDeletingAcrossCompanies(db), run, async (companyId) => {
    await deleteRows(db, companyId, run.signal).catch(unlessOthersDelete)
    return !run.signal?.aborted && (await companies.removeCompany(db, companyId))
  })
}

/** Runs `act` for each company, until the signal aborts or the database is away; returns for how many it is true. */
async function countEach(
  companyIds: string[],
  { signal, onFailure }: Run,
  act: (companyId: string) => Promise<boolean>,
): Promise<number> {
  let count = 0
  for (const companyId of companyIds) {
    if (signal?.aborted) return count
    try {
      if (await act(companyId)) count += 1
    } catch (error) {
      if (isOutage(error)) throw error
      onFailure(error)
    }
  }
  return count
}

/** Another instance still deletes rows that refer to these. It, or the next run, deletes these too. */
function unlessOthersDelete(error: unknown): void {
  if (codeOf(error) !== FOREIGN_KEY_VIOLATION) throw error
}

/** Rolls back the transaction: somebody has verified an e-mail meanwhile, or another instance has marked the company. */
class NotMarked extends Error {}

async function markUnverified({ db, system }: Context, companyId: string, now: number): Promise<boolean> {
  const marking = db.transaction().execute(async (tx) => {
    // First, as verification and the acceptance of an invitation do, so that one of them finds no token.
    await deleteTokens(tx, companyId, MAX_ROWS)
    if (!(await companies.markUnverified(tx, companyId))) throw new NotMarked()
    const about = { action: 'company_lapse', outcome: 'done', actor: null }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
    return true
  })
  return await marking.catch((error: unknown) => {
    if (error instanceof NotMarked) return false
    throw error
  })
}

/** Deletes the rows of a company whose deletion has begun, and makes its own row unreadable. */
async function deleteRows(db: Executor, companyId: string, signal?: AbortSignal): Promise<Deleted> {
  async function repeat(deleteSome: typeof deleteEvents): Promise<number> {
    return await deleteAll((max) => deleteSome(db, companyId, max), signal)
  }

  const events = await repeat(deleteEvents)
  const sessions = await repeat(deleteSessions)
  for (const deleteSome of [
    deleteTokens,
    deleteInvitations,
    deleteMails,
    deleteAuditAddresses,
    deleteRefusedSignIns,
    deleteRefusedRequests,
    deleteSecondFactors,
  ])
    await repeat(deleteSome)
  await deleteSecret(db, companyId)
  const users = await repeat(companies.deleteUsers)
  await companies.blankCompany(db, companyId)
  return { events, sessions, users }
}
