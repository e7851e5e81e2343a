import { sql } from 'kysely'
import type { KeyedDigest } from '../crypto/digests.ts'
import type { Executor, Transaction } from '../database/connect.ts'

/** The recovery codes of a member, as digests. */

/** Uses up a recovery code; returns how many are left, or undefined if there is none with such a digest. */
export async function consumeRecoveryCode(
  tx: Transaction,
  companyId: string,
  userId: string,
  digests: KeyedDigest[],
): Promise<number | undefined> {
  const { rows } = await sql`
    delete from recovery_codes
    where company_id = ${companyId} and user_id = ${userId}
      and digest = any(${digests.map(({ digest }) => digest)}::bytea[])
    returning digest`.execute(tx)
  if (rows.length === 0) return undefined
  const keyIds = digests.map(({ keyId }) => keyId)
  return await countRecoveryCodes(tx, companyId, userId, keyIds)
}

/** The recovery codes that are left, but for those under master keys that are not configured any more. */
export async function countRecoveryCodes(
  db: Executor,
  companyId: string,
  userId: string,
  keyIds: string[],
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int from recovery_codes
    where company_id = ${companyId} and user_id = ${userId} and key_id = any(${keyIds}::text[])`.execute(db)
  return rows[0]?.count ?? 0
}

/** Gives a member these recovery codes alone. */
export async function replaceRecoveryCodes(
  tx: Transaction,
  companyId: string,
  userId: string,
  codes: KeyedDigest[],
): Promise<void> {
  await tx
    .deleteFrom('recovery_codes')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .execute()
  if (codes.length === 0) return
  const rows = codes.map(({ digest, keyId }) => ({
    company_id: companyId,
    user_id: userId,
    digest,
    key_id: keyId,
  }))
  await tx.insertInto('recovery_codes').values(rows).execute()
}
