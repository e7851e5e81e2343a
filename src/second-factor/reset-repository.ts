import { sql } from 'kysely'
import type { Tx } from '../database/connect.ts'

/** What a reset of factors, or another e-mail, removes. Lock the member first. */
export async function deleteAllOf(tx: Tx, companyId: string, userId: string): Promise<void> {
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

/** No password matches an empty hash. */
export async function clearPassword(tx: Tx, companyId: string, userId: string): Promise<void> {
  await sql`
    update users set password_hash = '', locked_out_at = null
    where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}

/** For a member who gets another e-mail: what the old mailbox has proven. */
export async function forgetMailboxProofs(tx: Tx, companyId: string, userId: string): Promise<void> {
  await sql`delete from mailbox_codes where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
  await sql`
    delete from second_factors
    where company_id = ${companyId} and user_id = ${userId} and confirmed_at is null and mailbox_proven`.execute(
    tx,
  )
}
