import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { END_OF_FEED } from '../database/feed-positions.ts'
import {
  entriesWithAddresses,
  refusedEntry,
  refusedId,
  serviceEntry,
  shownEntry,
  type TrailEntry,
} from './repository.ts'

/** Reads the trail in an order that never changes: entries by position, and sums, which have none, by their minute. */

/** How long after the beginning of its minute a sum can grow: see minuteOf in fragments.ts. */
export const OPEN_MS = { sums: 2 * 60_000, lateSums: 17 * 60_000 }

export type SumPart = keyof typeof OPEN_MS
export const SUM_PARTS: readonly SumPart[] = ['sums', 'lateSums']
export type Part = 'entries' | SumPart
export const PARTS: readonly Part[] = ['entries', ...SUM_PARTS]

/** `position` is a bigint as decimal text: of the storing transaction, or the minute in milliseconds. */
export interface FeedPosition {
  position: string
  id: string
}

export type FeedEntry = TrailEntry & FeedPosition & { part: Part }

/** A time of the database's clock, and the number of a transaction that begins after it. */
export async function readMoment(db: Executor) {
  return await db
    .with(
      (cte) => cte('clock').materialized(),
      (one) => one.selectNoFrom(({ fn }) => fn<Date>('clock_timestamp').as('at')),
    )
    .selectFrom('clock')
    .select(['at', sql<string>`pg_current_xact_id()::text`.as('transaction')])
    .executeTakeFirstOrThrow()
}

/** `isPast` once all transactions have ended that began before that one, so none can add to a sum that was complete then. */
export async function readFeedState(db: Executor, transaction: string) {
  const isPast = sql<boolean>`pg_snapshot_xmin(pg_current_snapshot())::text::bigint > ${transaction}::bigint`
  return await db
    .selectFrom('event_feed')
    .select(({ fn }) => [
      'feed_id as feedId',
      'audit_from as from',
      fn<boolean>('is_feed_settled').as('isSettled'),
      isPast.as('isPast'),
    ])
    .executeTakeFirstOrThrow()
}

/** As in the index refused_sign_ins_late. */
const isLate = sql`r.reason in ('factor_missing', 'other')`

interface PageOptions {
  /** The last complete minute, in milliseconds. */
  ends: Record<SumPart, number>
  max: number
}

/** At most `max` rows of each part, in any order. */
export async function readFeed(
  db: Executor,
  companyId: string,
  after: Record<Part, FeedPosition>,
  { ends, max }: PageOptions,
): Promise<FeedEntry[]> {
  const inMs = (minute: RawBuilder<unknown>) => sql`(extract(epoch from ${minute}) * 1000)::bigint::text`
  const minuteOf = (ms: string | number) => sql`to_timestamp(${ms}::bigint / 1000)`
  const due = (part: SumPart, minute: RawBuilder<unknown>, id: RawBuilder<unknown>) => {
    const start = minuteOf(after[part].position)
    return sql`${minute} >= ${start} and ${minute} <= ${minuteOf(ends[part])}
      and (${minute}, ${id}) > (${start}, ${after[part].id}::uuid)
    order by ${minute}, ${id} limit ${max}`
  }
  const refused = (part: SumPart, which: RawBuilder<unknown>) => sql`
    (select ${refusedEntry}, ${part}::text as part, ${inMs(sql`r.minute`)} as position from refused_sign_ins r
    where r.company_id = ${companyId} and ${which} and ${due(part, sql`r.minute`, refusedId)})`
  const { rows } = await sql<FeedEntry>`
    (select ${shownEntry}, null as reason, null::int as count, 'entries' as part, e.feed_position::text as position
    from ${entriesWithAddresses}
    where e.company_id = ${companyId} and e.feed_position < ${END_OF_FEED}
      and (e.feed_position, e.audit_id) > (${after.entries.position}::bigint, ${after.entries.id}::uuid)
    order by e.feed_position, e.audit_id limit ${max})
    union all ${refused('sums', sql`(${isLate}) is not true`)}
    union all ${refused('lateSums', isLate)}
    union all (select ${serviceEntry}, 'sums' as part, ${inMs(sql`s.minute`)} as position from service_sign_ins s
    where s.company_id = ${companyId} and ${due('sums', sql`s.minute`, sql`s.audit_id`)})`.execute(db)
  return rows
}
