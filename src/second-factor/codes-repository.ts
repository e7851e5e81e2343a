import { sql } from 'kysely'
import type { MemberIds } from '../company/account.ts'
import type { KeyedDigest } from '../crypto/digests.ts'
import type { Executor, Tx } from '../database/connect.ts'

/**
 * Codes of a member, as keyed digests: recovery codes, and the one emailed code that proves the mailbox. That one belongs to
 * the session that requested it; for any other session there is no code, so its tries do not count.
 */

const MAX_TRIES = 5

/** Returns how many are left; undefined if there is none with such a digest. */
export async function consumeRecoveryCode(tx: Tx, companyId: string, userId: string, digests: KeyedDigest[]) {
  const { rows } = await sql`
    delete from recovery_codes
    where company_id = ${companyId} and user_id = ${userId}
      and digest = any(${digests.map(({ digest }) => digest)}::bytea[])
    returning digest`.execute(tx)
  if (rows.length === 0) return undefined
  const keyIds = digests.map(({ keyId }) => keyId)
  return await countRecoveryCodes(tx, companyId, userId, keyIds)
}

/** Without those under master keys that are not configured any more. */
export async function countRecoveryCodes(db: Executor, companyId: string, userId: string, keyIds: string[]) {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int from recovery_codes
    where company_id = ${companyId} and user_id = ${userId} and key_id = any(${keyIds}::text[])`.execute(db)
  return rows[0]?.count ?? 0
}

export async function replaceRecoveryCodes(tx: Tx, companyId: string, userId: string, codes: KeyedDigest[]) {
  await sql`delete from recovery_codes where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
  const ids = { company_id: companyId, user_id: userId }
  const rows = codes.map(({ digest, keyId }) => ({ ...ids, digest, key_id: keyId }))
  if (rows.length > 0) await tx.insertInto('recovery_codes').values(rows).execute()
}

/** Replaces an older code. */
export async function storeMailedCode(
  db: Executor,
  companyId: string,
  userId: string,
  { digest, sessionId, expiresAt }: { digest: Buffer; sessionId: string | null; expiresAt: Date },
): Promise<void> {
  await sql`
    insert into mailbox_codes (company_id, user_id, digest, session_id, expires_at)
    values (${companyId}, ${userId}, ${digest}, ${sessionId}, ${expiresAt})
    on conflict (company_id, user_id) do update set digest = excluded.digest, tries = 0,
      session_id = excluded.session_id, expires_at = excluded.expires_at`.execute(db)
}

/** Returns the digest to compare with; undefined if the session has no code, or it has had its last try. */
export async function countMailedCodeTry(
  db: Executor,
  { companyId, userId, sessionId }: MemberIds & { sessionId: string },
  now: Date,
) {
  const { rows } = await sql<{ digest: Buffer }>`
    update mailbox_codes set tries = tries + 1
    where company_id = ${companyId} and user_id = ${userId} and tries < ${MAX_TRIES} and expires_at > ${now}
      and coalesce(session_id = ${sessionId}, true)
    returning digest`.execute(db)
  return rows[0]?.digest
}

/** For a right code. */
export async function refundMailedCodeTry(db: Executor, companyId: string, userId: string, digest: Buffer) {
  await sql`
    update mailbox_codes set tries = greatest(0, tries - 1)
    where company_id = ${companyId} and user_id = ${userId} and digest = ${digest}`.execute(db)
}

export async function isCurrentMailedCode(tx: Tx, companyId: string, userId: string, digest: Buffer) {
  const { rows } = await sql`
    select from mailbox_codes
    where company_id = ${companyId} and user_id = ${userId} and digest = ${digest}`.execute(tx)
  return rows.length > 0
}

export async function consumeMailedCode(tx: Tx, companyId: string, userId: string): Promise<void> {
  await sql`delete from mailbox_codes where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}
