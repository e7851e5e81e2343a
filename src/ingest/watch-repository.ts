import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import { MAX_WATCHED } from './schemas.ts'

/**
 * The latest events of watched companies. The statement that stores these events lists them, without waiting for locks, so
 * watching never delays ingest.
 */

/** Of data and spellings. */
const MAX_SHOWN_BYTES = 8_192
/** While a backup runs, deleted rows stay in the index, so each statement looks at few. */
const MAX_SCANNED = 1_000

/** Undefined if nobody watches. Writes once a minute: session checks read this row, and its old versions while a backup runs. */
export async function keepWatch(
  db: Executor,
  companyId: string,
  { now, until }: { now: Date; until: Date },
): Promise<Date | undefined> {
  const { rows } = await sql<{ watchedSince: Date }>`
    with kept as (
      update subscriptions set watched_until = ${until}
      where company_id = ${companyId} and watched_until > ${now}
        and watched_until < ${until}::timestamptz - interval '1 minute'
    )
    select watched_since as "watchedSince" from subscriptions
    where company_id = ${companyId} and watched_until > ${now}`.execute(db)
  return rows[0]?.watchedSince
}

/** False if someone already watches. Deletes what earlier watches left: instances' clocks differ, so times cannot exclude it. */
export async function beginWatch(
  tx: Tx,
  companyId: string,
  { now, until }: { now: Date; until: Date },
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update subscriptions set watched_since = ${now}, watched_until = ${until}
    where company_id = ${companyId} and coalesce(watched_until, '-infinity') <= ${now}`.execute(tx)
  if (numAffectedRows !== 1n) return false
  await tx.deleteFrom('watched_events').where('company_id', '=', companyId).execute()
  return true
}

interface WatchedEvent {
  id: string
  type: string
  occurredAt: string | null
  receivedAt: string
  /** JSON text; null if it is too large. `spellings` restores its numbers: see withSpellings. */
  data: string | null
  spellings: string | null
}

/** Newest first. */
export async function listWatched(
  db: Executor,
  companyId: string,
  { since, limit }: { since: Date; limit: number },
): Promise<WatchedEvent[]> {
  const { rows } = await sql<WatchedEvent>`
    select e.event_id as id, e.type, (e.occurred_at at time zone 'UTC')::text as "occurredAt",
      (e.received_at at time zone 'UTC')::text as "receivedAt",
      case when not w.is_truncated then e.data::text end as data,
      case when not w.is_truncated then e.spellings end as spellings
    from (
      select * from watched_events where company_id = ${companyId} and received_at >= ${since}
      order by position desc limit ${limit}
    ) w
    join events e on e.company_id = w.company_id and e.event_id = w.event_id
    order by w.position desc`.execute(db)
  return rows
}

/**
 * Parts of the statement that stores events. Of a request, the last events are the newest. Concurrent statements can leave more
 * than the maximum, which the next one deletes. `retention.ts` deletes the rest.
 */
export const listing = sql`
  , listed as (
    insert into watched_events (company_id, event_id, received_at, is_truncated)
    select i.company_id, i.event_id, i.received_at,
      octet_length(i.data::text) + coalesce(octet_length(i.spellings), 0) > ${MAX_SHOWN_BYTES}::int
    from permitted p cross join lateral (
      -- Stops at the first ones that are stored: a join would compare each event with all others.
      select * from (
        select * from item i where i.company_id = p.company_id and i.secret_version = p.secret_version
        order by i.ord desc offset 0
      ) i
      where (select true from stored n where n.company_id = i.company_id and n.event_id = i.event_id)
      order by i.ord desc limit ${MAX_WATCHED}
    ) i
    order by i.ord
    returning company_id
  ), unlisted as (
    delete from watched_events w using (
      select old.* from (select company_id, count(*) as count from listed group by company_id) l
      cross join lateral (
        select w.company_id, w.position from (
          select position from watched_events where company_id = l.company_id
          order by position desc offset ${MAX_WATCHED}::bigint - l.count limit 1
        ) last
        join watched_events w on w.company_id = l.company_id
          and w.position between last.position - ${MAX_SCANNED}::bigint and last.position
        for update of w skip locked
      ) old
    ) old
    where w.company_id = old.company_id and w.position = old.position
  )`
