import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteLapsed } from '../database/prune.ts'

const TOKENS = { table: 'one_time_tokens', key: ['company_id', 'purpose', 'email', 'token_hash'] } as const

/** Deletes at most `max` tokens that expired before `before`; returns how many. */
export async function pruneTokensAcrossCompanies(db: Executor, before: Date, max: number): Promise<number> {
  return await deleteLapsed(db, TOKENS, sql`expires_at < ${before}`, max)
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
