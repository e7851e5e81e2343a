import type { MemberIds } from '../company/account.ts'
import type { KeyedDigest } from '../crypto/digests.ts'
import type { Executor, Tx } from '../database/connect.ts'

/**
 * Recovery codes and emailed codes, as keyed digests. Only the session that requested an emailed code can find it, so tries
 * of other sessions don't count.
 */

const MAX_TRIES = 5

/** Returns how many are left; undefined if none matches. */
export async function consumeRecoveryCode(tx: Tx, companyId: string, userId: string, digests: KeyedDigest[]) {
  const spellings = digests.map(({ digest }) => digest)
  const { numDeletedRows } = await tx
    .deleteFrom('recovery_codes')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('digest', 'in', spellings)
    .executeTakeFirst()
  if (numDeletedRows === 0n) return undefined
  const keyIds = digests.map(({ keyId }) => keyId)
  return await countRecoveryCodes(tx, companyId, userId, keyIds)
}

/** Skips codes under master keys that are no longer configured. */
export async function countRecoveryCodes(db: Executor, companyId: string, userId: string, keyIds: string[]) {
  const { count } = await db
    .selectFrom('recovery_codes')
    .select(({ cast, fn }) => cast<number>(fn.countAll(), 'integer').as('count'))
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('key_id', 'in', keyIds)
    .executeTakeFirstOrThrow()
  return count
}

export async function replaceRecoveryCodes(tx: Tx, companyId: string, userId: string, codes: KeyedDigest[]) {
  const ids = { company_id: companyId, user_id: userId }
  await tx
    .deleteFrom('recovery_codes')
    .where((eb) => eb.and(ids))
    .execute()
  const rows = codes.map(({ digest, keyId }) => ({ ...ids, digest, key_id: keyId }))
  if (rows.length > 0) await tx.insertInto('recovery_codes').values(rows).execute()
}

export async function storeMailedCode(
  db: Executor,
  companyId: string,
  userId: string,
  { digest, sessionId, expiresAt }: { digest: Buffer; sessionId: string | null; expiresAt: Date },
): Promise<void> {
  const code = { digest, tries: 0, session_id: sessionId, expires_at: expiresAt }
  await db
    .insertInto('mailbox_codes')
    .values({ company_id: companyId, user_id: userId, ...code })
    .onConflict((conflict) => conflict.columns(['company_id', 'user_id']).doUpdateSet(code))
    .execute()
}

/** Returns the digest to compare with; undefined if the session has no code, or no tries left. */
export async function countMailedCodeTry(
  db: Executor,
  { companyId, userId, sessionId }: MemberIds & { sessionId: string },
  now: Date,
) {
  const code = await db
    .updateTable('mailbox_codes')
    .set((eb) => ({ tries: eb('tries', '+', 1) }))
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('tries', '<', MAX_TRIES)
    .where('expires_at', '>', now)
    .where((eb) => eb.or([eb('session_id', 'is', null), eb('session_id', '=', sessionId)]))
    .returning('digest')
    .executeTakeFirst()
  return code?.digest
}

export async function refundMailedCodeTry(db: Executor, companyId: string, userId: string, digest: Buffer) {
  await db
    .updateTable('mailbox_codes')
    .set((eb) => ({ tries: eb('tries', '-', 1) }))
    .where((eb) => eb.and({ company_id: companyId, user_id: userId, digest }))
    .where('tries', '>', 0)
    .execute()
}

export async function isCurrentMailedCode(tx: Tx, companyId: string, userId: string, digest: Buffer) {
  const code = await tx
    .selectFrom('mailbox_codes')
    .select('digest')
    .where((eb) => eb.and({ company_id: companyId, user_id: userId, digest }))
    .executeTakeFirst()
  return code !== undefined
}

export async function consumeMailedCode(tx: Tx, companyId: string, userId: string): Promise<void> {
  await tx
    .deleteFrom('mailbox_codes')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .execute()
}
