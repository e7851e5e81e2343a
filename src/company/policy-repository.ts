import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import type { SecondFactorPolicy } from '../database/schema.ts'

/** By setting: how many active people have no second factor and would need one. */
export interface Security {
  secondFactor: SecondFactorPolicy
  concerned: Record<SecondFactorPolicy, number>
}

export async function findSecurity(db: Executor, companyId: string): Promise<Security | undefined> {
  const { rows } = await sql<{ secondFactor: SecondFactorPolicy; admins: number; everyone: number }>`
    select c.second_factor_policy as "secondFactor", n.admins, n.everyone
    from companies c
    cross join lateral (
      select count(*) filter (where u.role = 'admin')::int as admins, count(*)::int as everyone
      from users u
      where u.company_id = c.company_id and u.kind = 'person' and u.status = 'active' and u.second_factors = '{}'
    ) n
    where c.company_id = ${companyId} and c.status <> 'deleting'`.execute(db)
  const [row] = rows
  if (!row) return undefined
  const { secondFactor, ...counts } = row
  return { secondFactor, concerned: { optional: 0, ...counts } }
}

/** Locks the company until the transaction ends. */
export async function lockPolicy(tx: Tx, companyId: string): Promise<SecondFactorPolicy | undefined> {
  const { rows } = await sql<{ policy: SecondFactorPolicy }>`
    select second_factor_policy as policy from companies
    where company_id = ${companyId} and status <> 'deleting' for no key update`.execute(tx)
  return rows[0]?.policy
}

export async function storePolicy(tx: Tx, companyId: string, policy: SecondFactorPolicy): Promise<void> {
  await sql`update companies set second_factor_policy = ${policy} where company_id = ${companyId}`.execute(tx)
}

const MAX_TOLD = 100

/** Of the active admins. */
export async function listAdminEmails(tx: Tx, companyId: string): Promise<string[]> {
  const { rows } = await sql<{ email: string }>`
    select email from users
    where company_id = ${companyId} and role = 'admin' and kind = 'person' and status = 'active'
      and email_verified_at is not null
    order by user_id limit ${MAX_TOLD}`.execute(tx)
  return rows.map(({ email }) => email)
}
