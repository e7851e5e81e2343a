import { sql } from 'kysely'
import type { Tx } from '../database/connect.ts'

/** The user's row decides which passwords of a service account work: see `isPasswordOver`. */

interface NewPassword {
  digest: Buffer
  hint: string
  at: Date
  /** Null for an operator. */
  createdBy: string | null
  previousValidSeconds: number
}

/**
 * Returns when the previous password stops working, by the database's clock: null if it already has, or there
 * was none. Undefined if there is no such service account. Older passwords and their sessions end now.
 */
export async function replaceServicePassword(
  tx: Tx,
  companyId: string,
  userId: string,
  { digest, hint, at, createdBy, previousValidSeconds }: NewPassword,
): Promise<Date | null | undefined> {
  const { rows } = await sql<{ until: Date | null }>`
    with former as (
      select company_id, user_id, password_epoch, password_hash, last_sign_in_at from users
      where company_id = ${companyId} and user_id = ${userId} and kind = 'service' and status <> 'deleted'
      for no key update
    ), member as (
      update users u set locked_out_at = null, password_epoch = f.password_epoch + 1,
        former_password_until = case when ${previousValidSeconds}::int > 0
          then clock_timestamp() + make_interval(secs => ${previousValidSeconds}::int) end,
        password_hash = case when ${previousValidSeconds}::int > 0 and f.password_epoch = 0
          then f.password_hash else '' end
      from former f where u.company_id = f.company_id and u.user_id = f.user_id
      returning u.company_id, u.user_id, u.password_epoch, u.password_hash, u.former_password_until
    ), dropped as (
      delete from service_passwords p using member m
      where p.company_id = m.company_id and p.user_id = m.user_id
        and (p.password_epoch < m.password_epoch - 1 or m.former_password_until is null)
    ), kept as (
      insert into service_passwords (company_id, user_id, password_epoch, last_used_at)
      select f.company_id, f.user_id, 0, f.last_sign_in_at
      from former f join member m on m.company_id = f.company_id and m.user_id = f.user_id
      where m.password_hash <> ''
    ), added as (
      insert into service_passwords (company_id, user_id, password_epoch, digest, hint, created_at, created_by)
      select company_id, user_id, password_epoch, ${digest}::bytea, ${hint}, ${at}, ${createdBy}::uuid from member
    )
    select former_password_until as until from member`.execute(tx)
  return rows[0]?.until
}

export async function deleteServicePasswords(tx: Tx, companyId: string, userId: string): Promise<void> {
  await tx
    .deleteFrom('service_passwords')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .execute()
}
