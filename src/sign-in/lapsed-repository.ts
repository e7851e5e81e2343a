import { sql } from 'kysely'
import type { Executor, Transaction } from '../database/connect.ts'

/** Challenges that nobody has answered in time. */

/** Members with challenges that have expired, in the order of their keys after `last`, at most `max`. */
export async function listLapsedAcrossCompanies(
  db: Executor,
  now: Date,
  last: MemberKey,
  max: number,
): Promise<MemberKey[]> {
  const { rows } = await sql<MemberKey>`
    select distinct company_id as "companyId", user_id as "userId" from second_factor_challenges
    where expires_at <= ${now} and (company_id, user_id) > (${last.companyId}::uuid, ${last.userId}::uuid)
    order by 1, 2 limit ${max}`.execute(db)
  return rows
}

interface MemberKey {
  companyId: string
  userId: string
}

/** A sign-in that has begun with the right password. */
export interface Begun {
  /** Of the member. */
  email: string
  network: string
  ipAddress: string
  createdAt: Date
}

/**
 * Deletes the challenges of a member that have expired; returns whence and when the sign-ins among them were begun whose
 * password still holds. The member is held.
 */
export async function deleteLapsed(
  tx: Transaction,
  companyId: string,
  userId: string,
  now: Date,
): Promise<Begun[]> {
  const { rows } = await sql<Begun & { isOpen: boolean }>`
    delete from second_factor_challenges h using users u
    where h.company_id = ${companyId} and h.user_id = ${userId} and h.expires_at <= ${now}
      and u.company_id = h.company_id and u.user_id = h.user_id
    returning u.email, h.network, h.ip_address as "ipAddress", h.created_at as "createdAt",
      h.purpose = 'sign_in' and u.session_epoch = h.user_epoch as "isOpen"`.execute(tx)
  return rows.filter(({ isOpen }) => isOpen)
}

/** Notes that a member is told of such a sign-in, at most once a day; the e-mail to tell, or undefined. */
export async function noteTold(
  tx: Transaction,
  companyId: string,
  userId: string,
  now: Date,
): Promise<string | undefined> {
  const { rows } = await sql<{ email: string }>`
    update users set factor_missing_told_at = ${now}
    where company_id = ${companyId} and user_id = ${userId} and status = 'active'
      and coalesce(factor_missing_told_at <= ${now}::timestamptz - interval '1 day', true)
    returning email`.execute(tx)
  return rows[0]?.email
}
