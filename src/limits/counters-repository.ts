import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import type { Executor } from '../database/connect.ts'
import { counterOf, type Quota } from './client.ts'

/** The counters of limits. They belong to no company, because many of them count networks. */

export interface Use {
  counters: string[]
  now: number
}

export interface Refund {
  counter: string
}

export interface Count {
  /** More than the limit's `max` if this use is refused. */
  uses: number
  windowEndsAt: Date
}

/** Counts each use limit by limit, until it exceeds one. Lock order: limits, then counters by name. */
export async function countUses(db: Executor, limits: Limit[], uses: Use[]): Promise<Count[][]> {
  const now = Math.max(...uses.map((use) => use.now))
  const names = limits.map((_, level) => sql.ref(`counter_${level}`))
  const given = limits.map((_, level) => sql`${uses.map(({ counters }) => counters[level])}::text[]`)
  const steps = limits.map((limit, level) => countLevel(limit, level, names, now))
  const results = limits.map(
    (_, level) => sql`select ord::int, ${level}::int as level, uses::int, window_ends_at as "windowEndsAt"
      from ${sql.table(`seen_${level}`)}`,
  )
  const { rows } = await sql<Count & { ord: number }>`
    with asked_0 (${sql.join(names)}, ord) as (select * from unnest(${sql.join(given)}) with ordinality),
    ${sql.join(steps)}
    ${sql.join(results, sql` union all `)} order by level`.execute(db)
  const counts = uses.map((): Count[] => [])
  for (const { ord, uses, windowEndsAt } of rows) counts[ord - 1]?.push({ uses, windowEndsAt })
  return counts
}

/** Uses within this limit are `asked` of the next one. */
function countLevel(limit: Limit, level: number, names: RawBuilder<unknown>[], now: number) {
  const { endsAt, isOver, end } = windowAt(limit, now)
  const [asked, counted, seen] = ['asked', 'counted', 'seen'].map((step) => sql.table(`${step}_${level}`))
  const name = names[level]
  return sql`${counted} as (
      insert into rate_counters as c (counter, hits, window_ends_at)
      select ${name}, count(*)::int, ${endsAt}::timestamptz from ${asked} group by 1 order by 1
      on conflict (counter) do update set
        -- Uses beyond the limit were refused, so they do not count.
        hits = excluded.hits + case when ${isOver} then 0 else least(c.hits, ${limit.max}) end,
        window_ends_at = ${end}
      returning counter, hits, window_ends_at
    ), ${seen} as (
      select a.*, n.window_ends_at, n.hits - count(*) over same + row_number() over (same order by ord) as uses
      from ${asked} a join ${counted} n on n.counter = ${name}
      window same as (partition by ${name})
    ), ${sql.table(`asked_${level + 1}`)} as (
      select ${sql.join(names)}, ord from ${seen} where uses <= ${limit.max}
    )`
}

export async function refundUses(db: Executor, { max }: Limit, refunds: Refund[]): Promise<true[]> {
  const byCounter = Map.groupBy(refunds, ({ counter }) => counter)
  const hits = [...byCounter.values()].map(({ length }) => length)
  await sql`
    with i as (select * from unnest(${[...byCounter.keys()]}::text[], ${hits}::int[]) as i (counter, hits)),
    -- In the lock order of uses.
    c as (select counter from rate_counters where counter in (select counter from i) order by counter for update)
    update rate_counters r set hits = greatest(0, least(r.hits, ${max}) - i.hits)
    from i join c using (counter) where r.counter = i.counter`.execute(db)
  return refunds.map(() => true)
}

/** Reads the whole table: for operators only. */
export async function deleteCountersLike(db: Executor, prefix: string): Promise<void> {
  await sql`delete from rate_counters where starts_with(counter, ${prefix})`.execute(db)
}

const SKEW_MS = 120_000

function windowAt({ windowSeconds }: Limit, now: number) {
  const endsAt = new Date(now + windowSeconds * 1000)
  const isOver = sql`c.window_ends_at <= ${new Date(now)}`
  // Shortens only windows that a wrong clock started. Otherwise, slow clocks would end the windows of fast ones.
  const isWrong = sql`c.window_ends_at > ${new Date(endsAt.getTime() + SKEW_MS)}`
  return {
    endsAt,
    isOver,
    end: sql`case when ${isOver} or ${isWrong} then ${endsAt} else c.window_ends_at end`,
  }
}

/** Locks go level by level, then by name, as in `countUses`. */
export interface CountedQuota extends Quota {
  level: number
}

/** For each `ord` of `source`. */
export function refundEach(source: string, items: CountedQuota[][]) {
  const refunds = items.flatMap((quotas, index) => quotas.map((quota) => ({ ...quota, ord: index + 1 })))
  return sql`
    update rate_counters r set hits = greatest(0, least(r.hits, c.max) - c.uses)
    from (
      select i.name, i.max, count(*)::int as uses
      from unnest(${refunds.map(({ ord }) => ord)}::int[], ${refunds.map(({ level }) => level)}::int[],
        ${refunds.map(counterOf)}::text[],
        ${refunds.map(({ limit }) => limit.max)}::int[]) as i (ord, level, name, max)
      join ${sql.table(source)} a on a.ord = i.ord
      group by i.level, i.name, i.max
      order by i.level, i.name
    ) i
    cross join lateral (select counter, i.max, i.uses from rate_counters where counter = i.name for update) c
    where r.counter = c.counter`
}

export function lockCounter(counter: string, now: Date) {
  return sql`
    insert into rate_counters as c (counter, hits, window_ends_at) values (${counter}, 0, ${now})
    on conflict (counter) do update set hits = c.hits`
}

/** Lock the counter first. Leaves the last `reserved` uses. */
export function consumeUnreserved(
  { max, windowSeconds }: Limit,
  { counter, now, reserved }: { counter: string; now: Date; reserved: RawBuilder<unknown> },
) {
  const isOver = sql`window_ends_at <= ${now}`
  return sql`
    update rate_counters set
      hits = case when ${isOver} then 1 else hits + 1 end,
      window_ends_at = case when ${isOver} then ${new Date(now.getTime() + windowSeconds * 1000)} else window_ends_at end
    where counter = ${counter} and case when ${isOver} then 0 else hits end + ${reserved} < ${max}
    returning counter`
}

/** For each row of `source` (counter, ends_at). Locks the counters in the order of names. */
export function countEach(source: string) {
  return sql`
    insert into rate_counters as c (counter, hits, window_ends_at)
    select counter, count(*)::int, max(ends_at) from ${sql.table(source)} group by counter order by counter
    on conflict (counter) do update set hits = c.hits + excluded.hits
    returning counter, hits`
}

export function refundUse({ max }: Limit, { counter, now }: { counter: string; now: Date }) {
  return sql`
    update rate_counters set hits = greatest(0, least(hits, ${max}) - 1)
    where counter = ${counter} and window_ends_at > ${now}`
}

/** Null if the limit is not reached. */
export function endIfUsedUp({ max }: Limit, { counter, now }: { counter: string; now: Date }) {
  return sql`(
    select window_ends_at from rate_counters
    where counter = ${counter} and hits >= ${max} and window_ends_at > ${now}
  )`
}

/** In a row of a different feature. The age is in seconds, null before the first window. */
interface Window {
  age: RawBuilder<unknown>
  uses: RawBuilder<unknown>
}

export function isUsedUp({ max, windowSeconds }: Limit, { age, uses }: Window) {
  return sql`(${uses} >= ${max} and ${isOpen(windowSeconds, age)})`
}

/** A window that starts in the future was started before the clock was set back. */
function isOpen(windowSeconds: number, age: RawBuilder<unknown>) {
  return sql`abs(${age}) < ${windowSeconds}`
}

/** Zero and zero if the last window has ended. */
export function currentWindow({ windowSeconds }: Limit, { age, uses }: Window): Window {
  const open = isOpen(windowSeconds, age)
  return {
    age: sql`case when ${open} then ${age} else 0 end`,
    uses: sql`case when ${open} then ${uses} else 0 end`,
  }
}

export function secondsLeft({ windowSeconds }: Limit, age: RawBuilder<unknown>) {
  return sql`greatest(1, least(${windowSeconds}, ceil(${windowSeconds} - ${age})))::int`
}
