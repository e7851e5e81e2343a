import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'

/** Removes companies. operator/company-deletion.ts removes the rows of other tables. */

/** Ends all access and cannot be undone. False if there is no such company. */
export async function markDeleting(db: Executor, companyId: string): Promise<boolean> {
  const { rows } = await sql`
    update companies set status = 'deleting', deletion_began_at = coalesce(deletion_began_at, clock_timestamp())
    where company_id = ${companyId} returning company_id`.execute(db)
  return rows.length > 0
}

export async function blankCompany(db: Executor, companyId: string): Promise<void> {
  await sql`update companies set name = '' where company_id = ${companyId} and name <> ''`.execute(db)
}

/** False if other rows are left, or requests from before the deletion (at most a minute) can still add some. */
export async function removeCompany(db: Executor, companyId: string): Promise<boolean> {
  const { rows } = await sql`
    with settled as (
      select company_id from companies
      where company_id = ${companyId} and status = 'deleting'
        and deletion_began_at < clock_timestamp() - interval '1 minute'
        -- Another instance can still be deleting these.
        and not exists (select from users u where u.company_id = companies.company_id)
        and not exists (select from events e where e.company_id = companies.company_id)
    ), unsubscribed as (
      delete from subscriptions s using settled c where s.company_id = c.company_id
    )
    select from settled`.execute(db)
  if (rows.length === 0) return false
  await sql`delete from companies where company_id = ${companyId}`.execute(db)
  return true
}

export async function listDeletingAcrossCompanies(db: Executor): Promise<string[]> {
  const rows = await db
    .selectFrom('companies')
    .select('company_id as companyId')
    .where('status', '=', 'deleting')
    .execute()
  return rows.map(({ companyId }) => companyId)
}

const nobodyVerified = sql`not exists (
  select from users v where v.company_id = c.company_id and v.email_verified_at is not null
)`

export async function listUnverifiedAcrossCompanies(db: Executor, before: Date, max: number) {
  const { rows } = await sql<{ companyId: string }>`
    select distinct c.company_id as "companyId" from users u join companies c on c.company_id = u.company_id
    where u.email_verified_at is null and u.email is not null and u.created_at < ${before}
      and c.created_at < ${before} and c.status <> 'deleting' and ${nobodyVerified}
    limit ${max}`.execute(db)
  return rows.map(({ companyId }) => companyId)
}

/** Locks company and users: a concurrent verification or new user waits, and then finds the users disabled. */
export async function markUnverified(tx: Tx, companyId: string): Promise<boolean> {
  await sql`select from companies where company_id = ${companyId} for update`.execute(tx)
  await sql`select from users where company_id = ${companyId} order by user_id for update`.execute(tx)
  const { rows } = await sql`
    with marked as (
      update companies c set status = 'deleting', deletion_began_at = clock_timestamp()
      where c.company_id = ${companyId} and c.status <> 'deleting' and ${nobodyVerified} returning c.company_id
    ), disabled as (
      update users u set status = 'disabled' from marked m where u.company_id = m.company_id
    )
    select from marked`.execute(tx)
  return rows.length > 0
}
