import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { END_OF_FEED as end } from '../database/feed-positions.ts'

/** Reads events in the order of their storing transactions. migrations/0017-event-feed.ts shows why none is missed. */

/** `position` is a bigint as decimal text. */
export interface EventPosition {
  position: string
  companyId: string
  eventId: string
}

export interface FeedEvent extends EventPosition {
  type: string
  /** In UTC, as Postgres prints it: 2026-11-20 10:15:00.5 */
  occurredAt: string | null
  receivedAt: string
  /** JSON text. `spellings` restores its numbers: see withSpellings. */
  data: string
  spellings: string | null
}

/** Position of events that were stored before positions existed. They come first, in key order. */
export const OLD = '0'

/** Byte order instead of the database's collation, so that a cursor also works in a different cluster. */
const order = sql`e.feed_position, e.company_id, e.event_id collate "C"`
/** For `OLD`: matches the index on keys, so that old events do not need their own index. */
const oldOrder = sql`e.company_id, e.event_id using ~<~`

/** The position of the newest event that retention deleted; `OLD` if there is none. */
export async function readFeedState(db: Executor) {
  return await db
    .selectFrom('event_feed')
    .select((eb) => [
      'feed_id as feedId',
      'deleted_position as position',
      'deleted_company_id as companyId',
      'deleted_event_id as eventId',
      // False once a dump was restored: positions from a different cluster mean nothing here.
      eb.fn<boolean>('is_feed_settled').as('isSettled'),
    ])
    .executeTakeFirstOrThrow()
}

interface PageOptions {
  maxEvents: number
  /** The first event is read even if it is larger. */
  maxBytes: number
}

export async function readEventsAcrossCompanies(
  db: Executor,
  { position, companyId, eventId }: EventPosition,
  options: PageOptions,
) {
  const after = sql`(${position}::bigint, ${companyId}::uuid, ${eventId})`
  // Few events share a position, so Postgres sorts little more than the page.
  const last = sql`last_feed_position(${position}::bigint, ${end}, ${options.maxEvents}::int)`
  const events = sql`
    select * from events e
    -- Never events of OLD, which have a different order.
    where e.feed_position >= greatest(${position}::bigint, 1) and e.feed_position <= (select coalesce(${last}, ${end} - 1))
      and (${order}) > ${after}
    order by ${order} limit ${options.maxEvents}`
  return await readPage(db, options, order, events)
}

/** In key order, many newer events can lie between two of `OLD`. */
const MAX_SCANNED = 10_000

/** Null if no event of `OLD` follows. `reached`: where the next call continues after MAX_SCANNED other events. */
export async function readOldEventsAcrossCompanies(db: Executor, after: EventPosition, options: PageOptions) {
  const { rows } = await sql`select from events where feed_position = 0 limit 1`.execute(db)
  if (rows.length === 0) return null
  const reached = await findReached(db, after)
  // The sum keeps Postgres from using the index on positions and sorting all old events.
  const isOld = sql`e.feed_position + 0 = 0`
  const events = byKey({ after, upTo: reached, max: options.maxEvents }, isOld)
  const page = await readPage(db, options, oldOrder, events)
  if (reached) return { ...page, reached: page.isLast ? reached : null }
  return page.events.length > 0 ? { ...page, reached: null } : null
}

/** The key after MAX_SCANNED events; null if fewer follow. Read first, because events come and go. */
async function findReached(db: Executor, after: Key): Promise<EventPosition | null> {
  const { rows } = await sql<EventPosition>`
    select '0' as position, company_id as "companyId", event_id as "eventId"
    from (${byKey({ after, upTo: null, max: MAX_SCANNED }, sql`true`)}) e
    order by ${oldOrder} offset ${MAX_SCANNED - 1} limit 1`.execute(db)
  return rows[0] ?? null
}

type Key = Omit<EventPosition, 'position'>

/** Row comparisons don't use byte order, so each part is its own range of the index. */
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

/** Postgres knows lengths without reading TOASTed values, so data beyond `maxBytes` are never read. */
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
  return { events: rows, isLast: found < maxEvents && rows.length === found }
}

export async function findNewestPosition(db: Executor): Promise<string | null> {
  const { position } = await db
    .selectFrom('events')
    .select(({ fn }) => fn.max<string | null>('feed_position').as('position'))
    .where('feed_position', '<', end)
    .executeTakeFirstOrThrow()
  return position
}

/** When the oldest event was received that is committed but not readable yet. */
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
