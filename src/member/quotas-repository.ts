import { sql, type Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'

/** Locks the subscription of a company, so that one transaction at a time adds to what is counted. True in trial. */
export async function lockQuotas(tx: Transaction<Database>, companyId: string): Promise<boolean> {
  const { rows } = await sql<{ isTrial: boolean }>`
    select status = 'trialing' as "isTrial" from subscriptions where company_id = ${companyId}
    for no key update`.execute(tx)
  return rows[0]?.isTrial ?? true
}

export async function countMembers(tx: Transaction<Database>, companyId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from users where company_id = ${companyId} and status <> 'deleted'`.execute(
    tx,
  )
  return rows[0]?.count ?? 0
}
