import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'

/** Removes the password after so many wrong codes, and resets their count; false if there were fewer. */
export async function clearGuessedPassword(tx: Tx, companyId: string, userId: string, wrongCodes: number) {
  const { rows } = await sql`
    update users set password_hash = '', wrong_codes = 0
    where company_id = ${companyId} and user_id = ${userId} and wrong_codes >= ${wrongCodes} and status <> 'deleted'
    returning user_id`.execute(tx)
  return rows.length > 0
}

/** Returns how many there were in a row. */
export async function countWrongCode(db: Executor, companyId: string, userId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    update users set wrong_codes = wrong_codes + 1 where company_id = ${companyId} and user_id = ${userId}
    returning wrong_codes as count`.execute(db)
  return rows[0]?.count ?? 0
}

/** Returns the e-mail of the user. */
export async function forgetWrongCodes(tx: Tx, companyId: string, userId: string): Promise<string> {
  const { rows } = await sql<{ email: string }>`
    update users set wrong_codes = 0 where company_id = ${companyId} and user_id = ${userId}
    returning email`.execute(tx)
  return rows[0]?.email ?? ''
}
