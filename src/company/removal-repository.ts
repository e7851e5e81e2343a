import { sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'

/** Removes companies; of the rows of other tables, see operator/company-deletion.ts. */

/** From the commit on nobody is let in, and this cannot be undone. False if there is no such company. */
export async function markDeleting(db: Executor, companyId: string): Promise<boolean> {
  const { rows } = await sql`
    update companies set status = 'deleting', deletion_began_at = coalesce(deletion_began_at, clock_timestamp())
    where company_id = ${companyId} returning company_id`.execute(db)
  return rows.length > 0
}

/** Removes what the row of a company tells. */
export async function blankCompany(db: Executor, companyId: string): Promise<void> {
  await sql`update companies set name = '' where company_id = ${companyId} and name <> ''`.execute(db)
}

/**
 * Deletes the row of a company whose other rows are gone; false if some are left, or if requests from before the
 * deletion can still be in progress and add rows. No request takes longer than a minute.
 */
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

/** Companies whose deletion has begun and not ended. */
export async function listDeletingAcrossCompanies(db: Executor): Promise<string[]> {
  const { rows } = await sql<{ companyId: string }>`
    select company_id as "companyId" from companies where status = 'deleting'`.execute(db)
  return rows.map(({ companyId }) => companyId)
}

const nobodyVerified = sql`not exists (
  select from users v where v.company_id = c.company_id and v.email_verified_at is not null
)`

/**
 * Companies that were opened before `before` and of which no user has ever verified an e-mail, and whose deletion has
 * not begun; at most `max`.
 */
export async function listUnverifiedAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<string[]> {
  const { rows } = await sql<{ companyId: string }>`
    select distinct c.company_id as "companyId" from users u join companies c on c.company_id = u.company_id
    where u.email_verified_at is null and u.email is not null and u.created_at < ${before}
      and c.created_at < ${before} and c.status <> 'deleting' and ${nobodyVerified}
    limit ${max}`.execute(db)
  return rows.map(({ companyId }) => companyId)
}

/**
 * Marks a company for deletion if still nobody has verified an e-mail or marked it. The locks on company and users decide
 * against a verification, or a new user, at the same moment: a verification that waited finds the user disabled.
 */
export async function markUnverified(tx: Transaction<Database>, companyId: string): Promise<boolean> {
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
