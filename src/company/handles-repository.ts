import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'

/** Handles of companies. A previous handle stays reserved for its company. */

/** The last two previous handles stay reserved for as long as the company exists. */
const RESERVED = sql`interval '90 days'`
const KEPT = 2

export async function findByHandle(db: Executor, handle: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('companies')
    .select('company_id')
    .where('handle', '=', handle)
    .executeTakeFirst()
  return row?.company_id
}

/** Locks the company, so that its changes run one at a time. Undefined if it is being deleted. */
export async function findCompanyNames(tx: Tx, companyId: string) {
  return await tx
    .selectFrom('companies')
    .select(['name', 'handle'])
    .where('company_id', '=', companyId)
    .where('status', '!=', 'deleting')
    .forNoKeyUpdate()
    .executeTakeFirst()
}

/** Lock the company first. False if a different company has or reserves the handle. */
export async function claimHandle(tx: Tx, companyId: string, handle: string, now: Date): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with claimed as (
      insert into company_handles as h (handle, company_id) values (${handle}, ${companyId})
      on conflict (handle) do update set company_id = excluded.company_id, released_at = null, reserved_until = null
        where h.company_id = excluded.company_id or h.reserved_until <= ${now}
      returning handle
    ), released as (
      update company_handles h set released_at = ${now} from claimed c
      where h.company_id = ${companyId} and h.released_at is null and h.handle <> c.handle
    )
    update companies set handle = c.handle from claimed c where company_id = ${companyId}`.execute(tx)
  if (numAffectedRows === 0n) return false
  await sql`
    update company_handles h set reserved_until = h.released_at + ${RESERVED}
    from (
      select handle, row_number() over (order by released_at desc) as place from company_handles
      where company_id = ${companyId} and released_at is not null
    ) f
    where h.handle = f.handle and f.place > ${KEPT} and h.reserved_until is null`.execute(tx)
  return true
}

export async function releaseHandles(tx: Tx, companyId: string, now: Date): Promise<void> {
  await sql`
    with released as (
      update company_handles set released_at = coalesce(released_at, ${now}),
        reserved_until = coalesce(reserved_until, coalesce(released_at, ${now}) + ${RESERVED})
      where company_id = ${companyId}
    )
    update companies set handle = null where company_id = ${companyId}`.execute(tx)
}
