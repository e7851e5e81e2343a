import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteEvery, deleteLapsed, deleteOfCompany } from '../database/prune.ts'

const MAILS = { table: 'mail_outbox', key: ['company_id', 'mail_id'] } as const

/** Deletes at most `max` mails that were sent or failed before `before`; returns how many. */
export async function pruneMailsAcrossCompanies(db: Executor, before: Date, max: number): Promise<number> {
  return await deleteLapsed(db, MAILS, sql`coalesce(sent_at, failed_at) < ${before}`, max)
}

/** Deletes the mails that wait; returns how many. */
export async function deleteUnsentMailsAcrossCompanies(db: Executor): Promise<number> {
  return await deleteEvery(db, 'mail_outbox', sql`sent_at is null and failed_at is null`)
}

/** Deletes at most `max` mails of a company, sent or not; returns how many. */
export async function deleteMails(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, MAILS, max)
}
