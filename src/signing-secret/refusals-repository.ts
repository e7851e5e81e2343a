import { type RawBuilder, sql } from 'kysely'
import { itemTable } from '../database/columns.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { EventRefusal } from './schemas.ts'

/** Requests of one company, minute, reason, and network. IP address, webhook id, and clock skew are the last one's. */
export interface Refusals {
  companyId: string
  minute: Date
  reason: EventRefusal
  network: string
  count: number
  firstAt: Date
  lastAt: Date
  ipAddress: string
  webhookId: string | null
  clockSkewSeconds: number | null
  /** The signature is valid, or a recent one from this network was: not a stranger's. */
  isGenuine: boolean
}

const refusalTable = itemTable<Refusals>({
  company_id: ['uuid', ({ companyId }) => companyId],
  minute: ['timestamptz', ({ minute }) => minute],
  reason: ['text', ({ reason }) => reason],
  network: ['text', ({ network }) => network],
  count: ['int', ({ count }) => count],
  first_at: ['timestamptz', ({ firstAt }) => firstAt],
  last_at: ['timestamptz', ({ lastAt }) => lastAt],
  ip_address: ['text', ({ ipAddress }) => ipAddress],
  webhook_id: ['text', ({ webhookId }) => webhookId],
  clock_skew: ['int', ({ clockSkewSeconds }) => clockSkewSeconds],
  is_genuine: ['boolean', ({ isGenuine }) => isGenuine],
})

/** Separately for strangers and genuine senders, so that a flood doesn't hide genuine refusals. */
const MAX_PER_MINUTE = 10

/** Skips unknown companies. Locks on subscriptions, in key order, let only one statement take a minute's last row. */
export async function addRefusals(tx: Tx, items: Refusals[]): Promise<void> {
  const companyIds = [...new Set(items.map(({ companyId }) => companyId))]
  await sql`
    select from subscriptions where company_id = any(${companyIds}::uuid[])
    order by company_id for no key update`.execute(tx)
  await sql`
    insert into refused_requests as r (company_id, minute, reason, network, count, first_at, last_at, ip_address,
      webhook_id, clock_skew_seconds, is_genuine)
    select i.company_id, i.minute, i.reason, i.network, i.count, i.first_at, i.last_at, i.ip_address, i.webhook_id,
      i.clock_skew, i.is_genuine
    from (
      select i.*, k.is_known,
        row_number() over (partition by i.company_id, i.minute, k.is_known, i.is_genuine order by i.ord) as place
      from ${refusalTable(items)}
      cross join lateral (select exists (
        select from refused_requests r where r.company_id = i.company_id and r.minute = i.minute
          and r.reason = i.reason and r.network = i.network
      ) as is_known) k
    ) i
    join companies c on c.company_id = i.company_id and c.status <> 'deleting'
    where i.is_known or i.place + (
      select count(*) from refused_requests r
      where r.company_id = i.company_id and r.minute = i.minute and r.is_genuine = i.is_genuine
    ) <= ${MAX_PER_MINUTE}
    on conflict (company_id, minute, reason, network) do update set
      count = r.count + excluded.count,
      first_at = least(r.first_at, excluded.first_at),
      last_at = greatest(r.last_at, excluded.last_at),
      ip_address = excluded.ip_address,
      webhook_id = coalesce(excluded.webhook_id, r.webhook_id),
      clock_skew_seconds = excluded.clock_skew_seconds,
      is_genuine = r.is_genuine or excluded.is_genuine`.execute(tx)
}

const MAX_LISTED = 1_000

/** Latest first. At most half are from strangers. */
export async function listRefusals(db: Executor, companyId: string, since: Date) {
  const latest = (which: RawBuilder<unknown>, most: number) => sql`
    (select * from refused_requests where company_id = ${companyId} and minute >= ${since} and ${which}
    order by minute desc, last_at desc limit ${most})`
  const { rows } = await sql<Omit<Refusals, 'companyId' | 'minute' | 'network' | 'isGenuine'>>`
    select reason, count, first_at as "firstAt", last_at as "lastAt", ip_address as "ipAddress",
      webhook_id as "webhookId", clock_skew_seconds as "clockSkewSeconds"
    from (${latest(sql`is_genuine`, MAX_LISTED)} union all ${latest(sql`not is_genuine`, MAX_LISTED / 2)}) r
    order by minute desc, last_at desc limit ${MAX_LISTED}`.execute(db)
  return rows
}

/** Only the diagnosis of refusals reads it. */
export async function findFormerSecret(db: Executor, companyId: string, since: Date) {
  return await db
    .selectFrom('former_signing_secrets')
    .select(['version', 'sealed_secret as sealedSecret'])
    .where('company_id', '=', companyId)
    .where('replaced_at', '>', since)
    .executeTakeFirst()
}
