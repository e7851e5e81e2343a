import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Deletes at most `max` tokens that expired before `before`; returns how many. */
export async function pruneTokensAcrossCompanies(db: Executor, before: Date, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with lapsed as (
      select company_id, purpose, email, token_hash from one_time_tokens
      where expires_at < ${before}
      limit ${max} for update skip locked
    )
    delete from one_time_tokens t using lapsed l
    where t.company_id = l.company_id and t.purpose = l.purpose and t.email = l.email
      and t.token_hash = l.token_hash`.execute(db)
  return Number(numAffectedRows)
}

/** Deletes the tokens of a company, at most `max`, in the order in which requests lock them; returns how many. */
export async function deleteTokens(db: Executor, companyId: string, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with locked as (
      select token_hash from one_time_tokens where company_id = ${companyId}
      order by token_hash limit ${max} for update
    )
    delete from one_time_tokens t using locked l
    where t.company_id = ${companyId} and t.token_hash = l.token_hash`.execute(db)
  return Number(numAffectedRows)
}
