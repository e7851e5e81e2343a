import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteEvery, deleteLapsed, deleteOfCompany } from '../database/prune.ts'

const INVITATIONS = { table: 'invitations', key: ['company_id', 'invitation_id'] } as const

/** Deletes at most `max` invitations that expired before `before`, or were never sent; returns how many. */
export async function pruneInvitationsAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(
    db,
    INVITATIONS,
    sql`coalesce(expires_at, renewed_at, created_at) < ${before}`,
    max,
  )
}

/** Deletes all invitations; returns how many. */
export async function deleteInvitationsAcrossCompanies(db: Executor): Promise<number> {
  return await deleteEvery(db, 'invitations')
}

/** Deletes at most `max` invitations of a company; returns how many. */
export async function deleteInvitations(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, INVITATIONS, max)
}
