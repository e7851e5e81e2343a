import { sql } from 'kysely'
import type { MemberIds } from '../company/account.ts'
import type { RefusedSignIn } from '../company/refused-sign-ins-repository.ts'
import type { Executor, Tx } from '../database/connect.ts'

/** Challenges that have expired without an answer, and whose network has completed no sign-in since. */

/** Their members, in the order of their keys, after `last`. */
export async function listLapsedAcrossCompanies(db: Executor, until: Date, last: MemberIds, max: number) {
  const { rows } = await sql<MemberIds>`
    select distinct company_id as "companyId", user_id as "userId" from second_factor_challenges
    where expires_at <= ${until} and (company_id, user_id) > (${last.companyId}::uuid, ${last.userId}::uuid)
    order by 1, 2 limit ${max}`.execute(db)
  return rows
}

type Begun = Pick<RefusedSignIn, 'email' | 'network' | 'ipAddress' | 'at'>

/** Deletes those of a locked member, and returns their sign-ins whose password is still valid. */
export async function deleteLapsed(tx: Tx, companyId: string, userId: string, until: Date) {
  const { rows } = await sql<Begun & { isOpen: boolean }>`
    delete from second_factor_challenges h using users u
    where h.company_id = ${companyId} and h.user_id = ${userId} and h.expires_at <= ${until}
      and u.company_id = h.company_id and u.user_id = h.user_id
    returning u.email, h.network, h.ip_address as "ipAddress", h.created_at as at,
      h.purpose = 'sign_in' and u.session_epoch = h.user_epoch as "isOpen"`.execute(tx)
  return rows.filter(({ isOpen }) => isOpen)
}

/** The e-mail, if the member is to be told: at most once a day. */
export async function noteTold(tx: Tx, companyId: string, userId: string, now: Date) {
  const { rows } = await sql<{ email: string }>`
    update users set factor_missing_told_at = ${now}
    where company_id = ${companyId} and user_id = ${userId} and status = 'active'
      and coalesce(factor_missing_told_at <= ${now}::timestamptz - interval '1 day', true)
    returning email`.execute(tx)
  return rows[0]?.email
}
