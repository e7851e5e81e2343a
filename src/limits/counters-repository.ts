import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import type { Executor } from '../database/connect.ts'
import { windowAt } from './fragments.ts'

/** The counters of limits. They belong to no company, since many of them count networks. */

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

/** Counts each use at limit after limit, until one is used up. Lock order: limit by limit, then counters by name. */
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

/** What this limit lets pass is `asked` of the next one. */
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
