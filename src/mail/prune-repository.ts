import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Deletes at most `max` mails that were sent or failed before `before`; returns how many. */
export async function pruneMailsAcrossCompanies(db: Executor, before: Date, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with settled as (
      select company_id, mail_id from mail_outbox
      where coalesce(sent_at, failed_at) < ${before}
      limit ${max} for update skip locked
    )
    delete from mail_outbox m using settled s
    where m.company_id = s.company_id and m.mail_id = s.mail_id`.execute(db)
  return Number(numAffectedRows)
}

/** Deletes at most `max` mails of a company, sent or not; returns how many. */
export async function deleteMails(db: Executor, companyId: string, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from mail_outbox where company_id = ${companyId} and mail_id in (
      select mail_id from mail_outbox where company_id = ${companyId} order by mail_id limit ${max}
    )`.execute(db)
  return Number(numAffectedRows)
}
