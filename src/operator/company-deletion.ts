import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { releaseHandles } from '../company/handles-repository.ts'
import * as companies from '../company/removal-repository.ts'
import { noSuchCompany } from '../company/service.ts'
import { type Executor, transact } from '../database/connect.ts'
import { codeOf, isOutage } from '../database/faults.ts'
import { type ActContext, asOperator } from '../session/acts.ts'
import { deleteOfCompany } from './deletion-repository.ts'

/** A committed mark locks everyone out first. Bounded statements then delete the rows. Housekeeping completes interrupted runs. */

const FOREIGN_KEY_VIOLATION = '23503'
const MAX_LISTED = 1_000

export async function deleteCompany(context: ActContext, companyId: string) {
  const now = context.system.now()
  await asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    if (!(await companies.markDeleting(tx, companyId))) throw noSuchCompany()
    await releaseHandles(tx, companyId, new Date(now))
    await audit('company_delete')
  })
  return await deleteRows(context.db, companyId)
}

interface Run {
  signal?: AbortSignal | undefined
  onFailure(error: unknown): void
}

/** Deletes old companies that nobody verified, and completes interrupted deletions. Returns how many companies it removed. */
export async function deleteDueCompaniesAcrossCompanies(
  { db, system }: ActContext,
  { before, now, ...run }: Run & { before: Date; now: number },
): Promise<number> {
  for (let isDone = false; !isDone; ) {
    const unverified = await companies.listUnverifiedAcrossCompanies(db, before, MAX_LISTED)
    const marked = await countEach(unverified, run, (id) => markUnverified({ db, system }, id, now))
    isDone = unverified.length < MAX_LISTED || marked === 0
  }
  return await countEach(await companies.listDeletingAcrossCompanies(db), run, async (companyId) => {
    await deleteRows(db, companyId, run.signal).catch(unlessOthersDelete)
    return !run.signal?.aborted && (await companies.removeCompany(db, companyId))
  })
}

/** Counts for how many companies `act` returns true. Stops if the database is down. */
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

/** A different instance still deletes rows that refer to these. That instance or the next run deletes these. */
function unlessOthersDelete(error: unknown): void {
  if (codeOf(error) !== FOREIGN_KEY_VIOLATION) throw error
}

/** False if someone just verified an email, or if a different instance marked the company. */
async function markUnverified({ db, system }: ActContext, companyId: string, now: number): Promise<boolean> {
  return await transact(db, async (tx, rollBack) => {
    // Locks tokens first, as verifying an email and accepting an invitation do, so that only one of these succeeds.
    await deleteOfCompany(tx, companyId, 'one_time_tokens')
    if (!(await companies.markUnverified(tx, companyId))) throw rollBack(false)
    await releaseHandles(tx, companyId, new Date(now))
    const about = { action: 'company_lapse', outcome: 'done', actor: null }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
    return true
  })
}

const BEFORE_USERS = [
  'one_time_tokens',
  'invitations',
  'mail_outbox',
  'audit_addresses',
  'refused_sign_ins',
  'service_sign_ins',
  'audit_days',
  'refused_requests',
  'watched_events',
  'second_factors',
  'second_factor_challenges',
  'recovery_codes',
  'mailbox_codes',
  'former_signing_secrets',
  'signing_secrets',
] as const

async function deleteRows(db: Executor, companyId: string, signal?: AbortSignal) {
  const events = await deleteOfCompany(db, companyId, 'events', signal)
  const sessions = await deleteOfCompany(db, companyId, 'sessions', signal)
  for (const table of BEFORE_USERS) await deleteOfCompany(db, companyId, table, signal)
  const users = await deleteOfCompany(db, companyId, 'users', signal)
  await companies.blankCompany(db, companyId)
  return { events, sessions, users }
}
