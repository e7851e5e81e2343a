import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteEvery, deleteLapsed } from '../database/prune.ts'
import { deleteTokensWhere } from './repository.ts'

const TOKENS = { table: 'one_time_tokens', key: ['company_id', 'purpose', 'email', 'token_hash'] } as const

/** Deletes at most `max` tokens that expired before `before`; returns how many. */
export async function pruneTokensAcrossCompanies(db: Executor, before: Date, max: number): Promise<number> {
  return await deleteLapsed(db, TOKENS, sql`expires_at < ${before}`, max)
}

/** Deletes all tokens; returns how many. */
export async function deleteTokensAcrossCompanies(db: Executor): Promise<number> {
  return await deleteEvery(db, 'one_time_tokens')
}

/** Deletes at most `max` tokens of a company; returns how many. */
export async function deleteTokens(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteTokensWhere(db, companyId, sql`true`, max)
}
