import { sql } from 'kysely'
import type { Executor, Transaction } from '../database/connect.ts'

/** Mailed codes that prove a mailbox: one a member, as a keyed digest. */

const MAX_TRIES = 5

/** Stores the code of a mail that is about to be sent, in place of an older one. */
export async function storeCode(
  db: Executor,
  companyId: string,
  userId: string,
  { digest, expiresAt }: { digest: Buffer; expiresAt: Date },
): Promise<void> {
  await sql`
    insert into mailbox_codes (company_id, user_id, digest, expires_at)
    values (${companyId}, ${userId}, ${digest}, ${expiresAt})
    on conflict (company_id, user_id) do update set digest = excluded.digest, tries = 0,
      expires_at = excluded.expires_at`.execute(db)
}

/** Counts a try, and returns the digest to compare with; undefined if there is no code, or it has had its last try. */
export async function countTry(
  db: Executor,
  companyId: string,
  userId: string,
  now: Date,
): Promise<Buffer | undefined> {
  const { rows } = await sql<{ digest: Buffer }>`
    update mailbox_codes set tries = tries + 1
    where company_id = ${companyId} and user_id = ${userId} and tries < ${MAX_TRIES} and expires_at > ${now}
    returning digest`.execute(db)
  return rows[0]?.digest
}

/** Gives back the try of a right code. */
export async function refundTry(
  db: Executor,
  companyId: string,
  userId: string,
  digest: Buffer,
): Promise<void> {
  await sql`
    update mailbox_codes set tries = greatest(0, tries - 1)
    where company_id = ${companyId} and user_id = ${userId} and digest = ${digest}`.execute(db)
}

/** Whether a code is still that of the member. */
export async function isCurrent(
  tx: Transaction,
  companyId: string,
  userId: string,
  digest: Buffer,
): Promise<boolean> {
  const { rows } = await sql`
    select from mailbox_codes
    where company_id = ${companyId} and user_id = ${userId} and digest = ${digest}`.execute(tx)
  return rows.length > 0
}

/** Consumes the code of a member, if there is one. */
export async function consumeCode(tx: Transaction, companyId: string, userId: string): Promise<void> {
  await sql`delete from mailbox_codes where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}
