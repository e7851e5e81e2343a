import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import { counterOf, type Quota } from './subject.ts'

const SKEW_MS = 120_000

export function windowAt({ windowSeconds }: Limit, now: number) {
  const endsAt = new Date(now + windowSeconds * 1000)
  const isOver = sql`c.window_ends_at <= ${new Date(now)}`
  // Only a window that a wrong clock started is shortened: for a fast clock, a slow one would end it at once.
  const isWrong = sql`c.window_ends_at > ${new Date(endsAt.getTime() + SKEW_MS)}`
  return {
    endsAt,
    isOver,
    end: sql`case when ${isOver} or ${isWrong} then ${endsAt} else c.window_ends_at end`,
  }
}

/**
 * Of each item whose `ord` is in `source`. Locks in the order of their counting: limit by limit, then counters by name. An IPv6
 * network has one limit more than others, before the last one, so they are numbered from the end.
 */
export function refundEach(source: string, items: Quota[][]) {
  const refunds = items.flatMap((quotas, index) =>
    quotas.map((quota, place) => ({ quota, level: place - quotas.length, ord: index + 1 })),
  )
  return sql`
    update rate_counters r set hits = greatest(0, least(r.hits, c.max) - c.uses)
    from (
      select i.name, i.max, count(*)::int as uses
      from unnest(${refunds.map(({ ord }) => ord)}::int[], ${refunds.map(({ level }) => level)}::int[],
        ${refunds.map(({ quota }) => counterOf(quota))}::text[],
        ${refunds.map(({ quota }) => quota.limit.max)}::int[]) as i (ord, level, name, max)
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

/** Null if the limit is not used up. */
export function endIfUsedUp({ max }: Limit, { counter, now }: { counter: string; now: Date }) {
  return sql`(
    select window_ends_at from rate_counters
    where counter = ${counter} and hits >= ${max} and window_ends_at > ${now}
  )`
}

/** A window in a row of another feature. The age is in seconds, null before the first one. */
interface Window {
  age: RawBuilder<unknown>
  uses: RawBuilder<unknown>
}

export function isUsedUp({ max, windowSeconds }: Limit, { age, uses }: Window) {
  return sql`(${uses} >= ${max} and ${isOpen(windowSeconds, age)})`
}

/** A window that starts in the future was started before the clock was put back. */
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
