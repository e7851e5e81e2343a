import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { windowAt } from './fragments.ts'
import type { Limit } from './list.ts'

/** The counters of limits. They belong to no company, since many of them count networks. */

/** One use of a counter of each limit, in turn. */
export interface Use {
  counters: string[]
  now: number
}

/** The refund of one use of a counter. */
export interface Refund {
  counter: string
}

export interface Count {
  /** Uses in the window, this one included; more than the limit's `max` if this one must be refused. */
  uses: number
  windowEndsAt: Date
}

/**
 * Adds each use to its counter of the first limit and, if that had one left, to that of the next. Returns the counts of
 * each use, as if they came one by one; the last one is of the counter that was used up, if one was. All statements lock
 * counters limit by limit, and those of one limit by name, so that they never deadlock.
 */
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

/** Counts what is asked of the limit of one level, and asks the next one for what this one has let pass. */
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

/** Takes the uses off their counters again, not below zero. A counter that is gone stays gone. */
export async function refundUses(db: Executor, { max }: Limit, refunds: Refund[]): Promise<true[]> {
  const byCounter = Map.groupBy(refunds, ({ counter }) => counter)
  const hits = [...byCounter.values()].map(({ length }) => length)
  await sql`
    with i as (select * from unnest(${[...byCounter.keys()]}::text[], ${hits}::int[]) as i (counter, hits)),
    -- In the order in which uses lock them, so that statements cannot wait for each other in a circle.
    c as (select counter from rate_counters where counter in (select counter from i) order by counter for update)
    update rate_counters r set hits = greatest(0, least(r.hits, ${max}) - i.hits)
    from i join c using (counter) where r.counter = i.counter`.execute(db)
  return refunds.map(() => true)
}

/** Deletes the counters whose names begin with `prefix`. It reads the whole table: for operators only. */
export async function deleteCountersLike(db: Executor, prefix: string): Promise<void> {
  await sql`delete from rate_counters where starts_with(counter, ${prefix})`.execute(db)
}
