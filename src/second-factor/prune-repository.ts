import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteLapsed, deleteOfCompany } from '../database/prune.ts'

const USED_CHALLENGES = { table: 'used_passkey_challenges', key: ['challenge_hash'] } as const
const MAILBOX_CODES = { table: 'mailbox_codes', key: ['company_id', 'user_id'] } as const
const FACTORS = { table: 'second_factors', key: ['company_id', 'factor_id'] } as const
const CHALLENGES = {
  table: 'second_factor_challenges',
  key: ['company_id', 'user_id', 'challenge_hash'],
} as const
const RECOVERY_CODES = { table: 'recovery_codes', key: ['company_id', 'user_id', 'digest'] } as const

/** Deletes at most `max` used challenges that expired before `before`; returns how many. */
export async function pruneUsedChallenges(db: Executor, before: Date, max: number): Promise<number> {
  return await deleteLapsed(db, USED_CHALLENGES, sql`expires_at < ${before}`, max)
}

/** Deletes at most `max` mailed codes that expired before `before`; returns how many. */
export async function pruneMailboxCodesAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, MAILBOX_CODES, sql`expires_at < ${before}`, max)
}

/** Deletes at most `max` authenticator apps that were begun before `before` and not confirmed; returns how many. */
export async function pruneUnconfirmedAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, FACTORS, sql`confirmed_at is null and created_at < ${before}`, max)
}

/** Deletes at most `max` factors, codes and challenges of each kind of a company, in key order; returns the most of a kind. */
export async function deleteSecondFactors(db: Executor, companyId: string, max: number): Promise<number> {
  return Math.max(
    await deleteOfCompany(db, companyId, FACTORS, max),
    await deleteOfCompany(db, companyId, CHALLENGES, max),
    await deleteOfCompany(db, companyId, RECOVERY_CODES, max),
    await deleteOfCompany(db, companyId, MAILBOX_CODES, max),
  )
}
