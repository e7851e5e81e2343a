import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Reads events in the order of their storing transactions: migrations/0017-event-feed.ts says why that misses none. */

/** Behind an event, in the order of the feed. `position` is decimal text. */
export interface EventPosition {
  position: string
  companyId: string
  eventId: string
}

export interface FeedEvent extends EventPosition {
  type: string
  /** As Postgres writes a time of UTC: 2026-11-20 10:15:00.5 */
  occurredAt: string | null
  receivedAt: string
  /** JSON text, as it is stored. */
  data: string
  /** Of its numbers: see withSpellings. */
  spellings: string | null
}

/** Of events that were stored before there were positions. They are the first, in the order of their keys. */
export const OLD = '0'

/** What no transaction in progress, and none to come, has: all events before it are there. */
const end: RawBuilder<string> = sql`(select position_offset + pg_snapshot_xmin(pg_current_snapshot())::text::bigint from event_feed)`

/** Not by the collation of the database: a cursor holds in another cluster too. */
const order = sql`e.feed_position, e.company_id, e.event_id collate "C"`
/** Of `OLD`: that of the index of keys, which compares bytes too, so they need none of their own. */
const oldOrder = sql`e.company_id, e.event_id using ~<~`

/** The position is that of the newest event that retention has deleted; at `OLD`, none. */
export async function readFeedState(db: Executor) {
  return await db
    .selectFrom('event_feed')
    .select((eb) => [
      'feed_id as feedId',
      'deleted_position as position',
      'deleted_company_id as companyId',
      'deleted_event_id as eventId',
      // Whether the positions are of this cluster. If not, a dump was restored, and they mean nothing.
      eb.fn<boolean>('is_feed_settled').as('isSettled'),
    ])
    .executeTakeFirstOrThrow()
}

interface PageOptions {
  maxEvents: number
  /** Of their data. One event is read, however large it is. */
  maxBytes: number
}

export async function readEventsAcrossCompanies(
  db: Executor,
  { position, companyId, eventId }: EventPosition,
  options: PageOptions,
) {
  const after = sql`(${position}::bigint, ${companyId}::uuid, ${eventId})`
  // Few events have the same position, so little more than the page is sorted.
  const last = sql`last_feed_position(${position}::bigint, ${end}, ${options.maxEvents}::int)`
  const events = sql`
    select * from events e
    -- Never one of OLD: those are in another order.
    where e.feed_position >= greatest(${position}::bigint, 1) and e.feed_position <= (select coalesce(${last}, ${end} - 1))
      and (${order}) > ${after}
    order by ${order} limit ${options.maxEvents}`
  return await readPage(db, options, order, events)
}

/** Between events of `OLD`, there can be many others by key. */
const MAX_SCANNED = 10_000

/** The events of `OLD`. Also null if there are none, and where the next call goes on if it has looked at too many others. */
export async function readOldEventsAcrossCompanies(db: Executor, after: EventPosition, options: PageOptions) {
  const { rows } = await sql`select from events where feed_position = 0 limit 1`.execute(db)
  if (rows.length === 0) return null
  const reached = await findReached(db, after)
  // The sum keeps Postgres from the other index, and from sorting all old events.
  const isOld = sql`e.feed_position + 0 = 0`
  const events = byKey({ after, upTo: reached, max: options.maxEvents }, isOld)
  const page = await readPage(db, options, oldOrder, events)
  if (reached) return { ...page, reached: page.isLast ? reached : null }
  return page.events.length > 0 ? { ...page, reached: null } : null
}

/** The key at which a statement stops; null where there are not so many. Found first, since keys come and go. */
async function findReached(db: Executor, after: Key): Promise<EventPosition | null> {
  const { rows } = await sql<EventPosition>`
    select '0' as position, company_id as "companyId", event_id as "eventId"
    from (${byKey({ after, upTo: null, max: MAX_SCANNED }, sql`true`)}) e
    order by ${oldOrder} offset ${MAX_SCANNED - 1} limit 1`.execute(db)
  return rows[0] ?? null
}

type Key = Omit<EventPosition, 'position'>

/** Events by key. No comparison of rows has the order of bytes, so each part is a range of the index. */
function byKey(
  { after, upTo, max }: { after: Key; upTo: Key | null; max: number },
  condition: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const isLastCompany = upTo?.companyId === after.companyId
  const parts = [
    sql`e.company_id = ${after.companyId}::uuid and e.event_id ~>~ ${after.eventId}
      ${isLastCompany ? sql`and e.event_id ~<=~ ${upTo.eventId}` : sql``}`,
  ]
  if (!upTo) parts.push(sql`e.company_id > ${after.companyId}::uuid`)
  else if (!isLastCompany)
    parts.push(
      sql`e.company_id > ${after.companyId}::uuid and e.company_id < ${upTo.companyId}::uuid`,
      sql`e.company_id = ${upTo.companyId}::uuid and e.event_id ~<=~ ${upTo.eventId}`,
    )
  const ranges = parts.map(
    (part) => sql`(select * from events e where ${part} and ${condition} order by ${oldOrder} limit ${max})`,
  )
  return sql`select * from (${sql.join(ranges, sql` union all `)}) e order by ${oldOrder} limit ${max}`
}

/** Lengths are known without reading what is stored apart, so what goes beyond the bytes is not read. */
async function readPage(
  db: Executor,
  { maxEvents, maxBytes }: PageOptions,
  by: RawBuilder<unknown>,
  events: RawBuilder<unknown>,
) {
  const { rows } = await sql<FeedEvent & { found: number }>`
    select feed_position as position, company_id as "companyId", event_id as "eventId", type,
      (occurred_at at time zone 'UTC')::text as "occurredAt", (received_at at time zone 'UTC')::text as "receivedAt",
      data::text as data, spellings, found
    from (
      select e.*, row_number() over ordered as number, count(*) over ()::int as found,
        sum(octet_length(e.data::text) + coalesce(octet_length(e.spellings), 0)) over ordered as bytes
      from (${events}) e window ordered as (order by ${by} rows unbounded preceding)
    ) e
    where bytes <= ${maxBytes} or number = 1
    order by number`.execute(db)
  const found = rows[0]?.found ?? 0
  /** `isLast`: these are all that could be read. */
  return { events: rows, isLast: found < maxEvents && rows.length === found }
}

/** The greatest position that can be read; null if there is none. */
export async function findNewestPosition(db: Executor): Promise<string | null> {
  const { position } = await db
    .selectFrom('events')
    .select(({ fn }) => fn.max<string | null>('feed_position').as('position'))
    .where('feed_position', '<', end)
    .executeTakeFirstOrThrow()
  return position
}

/** When the first event was received that is committed and cannot be read yet; null if there is none. */
export async function findFirstWaitingAcrossCompanies(db: Executor): Promise<Date | null> {
  const first = await db
    .selectFrom('events')
    .select('received_at as receivedAt')
    .where('feed_position', '>=', end)
    .orderBy('feed_position')
    .limit(1)
    .executeTakeFirst()
  return first?.receivedAt ?? null
}
