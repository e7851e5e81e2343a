import { sql } from 'kysely'
import { sumUpRefusedSignIns } from '../audit/fragments.ts'
import type { Executor } from '../database/connect.ts'

export interface RefusedSignIn {
  companyId: string
  email: string
  network: string
  kind: 'wrong_password' | 'email_not_verified'
  at: Date
  /** Whether it was the last guess within the limit: the user is then marked as locked out. */
  isLockout: boolean
}

/**
 * Records refused sign-ins. One statement and one commit, whether or not company and user exist, so that the
 * time of the answer does not reveal it. Locks the users in key order, so that two statements never deadlock.
 */
export async function recordRefusedSignIns(db: Executor, items: RefusedSignIn[]): Promise<void> {
  await sql`
    with item as (
      select * from unnest(
        ${items.map(({ companyId }) => companyId)}::uuid[], ${items.map(({ email }) => email)}::text[],
        ${items.map(({ network }) => network)}::text[], ${items.map(({ kind }) => kind)}::text[],
        ${items.map(({ at }) => at)}::timestamptz[], ${items.map(({ isLockout }) => isLockout)}::boolean[]
      ) as i (company_id, email, network, kind, at, is_lockout)
    ), locked as (
      select u.company_id, u.user_id from users u
      where (u.company_id, u.email) in (select company_id, email from item where is_lockout)
      order by u.company_id, u.user_id
      for update
    ), noted as (
      update users u set locked_out_at = (select max(at) from item where is_lockout)
      from locked l where u.company_id = l.company_id and u.user_id = l.user_id
    ), summed as (${sumUpRefusedSignIns(sql`item`)})
    select`.execute(db)
}
