import { sql } from 'kysely'
import type { Transaction } from '../database/connect.ts'

/** What a reset removes, or another e-mail. */

/** Removes all factors, recovery codes, challenges and mailed codes of a member, who is held first. */
export async function deleteAllOf(tx: Transaction, companyId: string, userId: string): Promise<void> {
  await sql`
    update users set second_factors = '{}', wrong_codes = 0, passkey_handle = null
    where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
  for (const table of [
    'second_factor_challenges',
    'second_factors',
    'recovery_codes',
    'mailbox_codes',
  ] as const)
    await sql`delete from ${sql.table(table)} where company_id = ${companyId} and user_id = ${userId}`.execute(
      tx,
    )
}

/** Leaves a member without a password, until a mailed link gives another one. */
export async function clearPassword(tx: Transaction, companyId: string, userId: string): Promise<void> {
  await sql`
    update users set password_hash = '', locked_out_at = null
    where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}

/** Forgets what the mailbox of a member has proven, since they have another one: the code, and an app that is not in force. */
export async function forgetMailboxProofs(tx: Transaction, companyId: string, userId: string): Promise<void> {
  await sql`delete from mailbox_codes where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
  await sql`
    delete from second_factors
    where company_id = ${companyId} and user_id = ${userId} and confirmed_at is null and mailbox_proven`.execute(
    tx,
  )
}
