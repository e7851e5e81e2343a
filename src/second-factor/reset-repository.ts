import { sql, type Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'

/** What a reset removes. */

/** Removes all factors, recovery codes, challenges and mailed codes of a member, who is held first. */
export async function deleteAllOf(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
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
export async function clearPassword(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  await sql`
    update users set password_hash = '', locked_out_at = null
    where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}
