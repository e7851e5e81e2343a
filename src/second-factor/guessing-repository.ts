import { sql, type Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'

/** Leaves a member without a password after that many wrong codes, and counts from the start; false if there were fewer. */
export async function clearGuessedPassword(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  wrongCodes: number,
): Promise<boolean> {
  const { rows } = await sql`
    update users set password_hash = '', wrong_codes = 0
    where company_id = ${companyId} and user_id = ${userId} and wrong_codes >= ${wrongCodes} and status <> 'deleted'
    returning user_id`.execute(tx)
  return rows.length > 0
}
