import { type RawBuilder, sql } from 'kysely'
import type { Limit } from './list.ts'
import { counterOf, type Quota } from './subject.ts'

/** More than the clocks of two instances differ by. */
const SKEW_MS = 120_000

/** The window of counter `c` when it is used, as SQL. `now` is the time of the use, in milliseconds. */
export function windowAt({ windowSeconds }: Limit, now: number) {
  const endsAt = new Date(now + windowSeconds * 1000)
  const isOver = sql`c.window_ends_at <= ${new Date(now)}`
  // A window that ends far later than a new one was started by a wrong clock. Any other end stays: if a clock that is
  // behind pulled it back, the window would be over at once for a clock that is ahead.
  const isWrong = sql`c.window_ends_at > ${new Date(endsAt.getTime() + SKEW_MS)}`
  return {
    endsAt,
    isOver,
    end: sql`case when ${isOver} or ${isWrong} then ${endsAt} else c.window_ends_at end`,
  }
}

/**
 * Gives a use of each counter back if the common table expression `source` has a row. The counters are locked in the
 * given order, which must be that of their counting, so that two statements never deadlock.
 */
export function refundIfAny(source: string, quotas: Quota[]) {
  return sql`
    update rate_counters r set hits = greatest(0, least(r.hits, c.max) - 1)
    from (
      select * from unnest(${quotas.map(counterOf)}::text[], ${quotas.map(({ limit }) => limit.max)}::int[])
        with ordinality as i (name, max, ord)
      where exists (select from ${sql.table(source)})
      order by ord
    ) i
    cross join lateral (select counter, i.max from rate_counters where counter = i.name for update) c
    where r.counter = c.counter`
}

/** Locks a counter, which is made if there is none, until the end of the transaction. */
export function lockCounter(counter: string, now: Date) {
  return sql`
    insert into rate_counters as c (counter, hits, window_ends_at) values (${counter}, 0, ${now})
    on conflict (counter) do update set hits = c.hits`
}

/**
 * Consumes one use of a limit whose counter is locked, but not the last `reserved` uses that are left. Returns a row if
 * it was consumed.
 */
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

/**
 * Counts a use for each row of the common table expression `source` (counter, ends_at), without a limit. Returns `counter`
 * and `hits`. Locks the counters in the order of their names, so that two statements never deadlock.
 */
export function countEach(source: string) {
  return sql`
    insert into rate_counters as c (counter, hits, window_ends_at)
    select counter, count(*)::int, max(ends_at) from ${sql.table(source)} group by counter order by counter
    on conflict (counter) do update set hits = c.hits + excluded.hits
    returning counter, hits`
}

/** Gives one use back that was consumed at `now`. */
export function refundUse({ max }: Limit, { counter, now }: { counter: string; now: Date }) {
  return sql`
    update rate_counters set hits = greatest(0, least(hits, ${max}) - 1)
    where counter = ${counter} and window_ends_at > ${now}`
}

/** The end of the window if the limit is used up, before this statement; null otherwise. */
export function endIfUsedUp({ max }: Limit, { counter, now }: { counter: string; now: Date }) {
  return sql`(
    select window_ends_at from rate_counters
    where counter = ${counter} and hits >= ${max} and window_ends_at > ${now}
  )`
}

/**
 * A window that is counted in a row of another feature, as SQL: its age in seconds and its number of uses.
 * The age is null before the first window.
 */
interface Window {
  age: RawBuilder<unknown>
  uses: RawBuilder<unknown>
}

/** Whether the window has not ended and its limit is used up. */
export function isUsedUp({ max, windowSeconds }: Limit, { age, uses }: Window) {
  return sql`(${uses} >= ${max} and ${isOpen(windowSeconds, age)})`
}

/** Whether the window has not ended. One that starts in the future was started before the clock was put back. */
function isOpen(windowSeconds: number, age: RawBuilder<unknown>) {
  return sql`abs(${age}) < ${windowSeconds}`
}

/** Age and uses of the window to which the next use belongs: zero and zero if the last window has ended. */
export function currentWindow({ windowSeconds }: Limit, { age, uses }: Window): Window {
  const open = isOpen(windowSeconds, age)
  return {
    age: sql`case when ${open} then ${age} else 0 end`,
    uses: sql`case when ${open} then ${uses} else 0 end`,
  }
}

/** Whole seconds until the window ends, at least one and at most its length. */
export function secondsLeft({ windowSeconds }: Limit, age: RawBuilder<unknown>) {
  return sql`greatest(1, least(${windowSeconds}, ceil(${windowSeconds} - ${age})))::int`
}
