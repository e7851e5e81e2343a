import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { windowAt } from './fragments.ts'
import type { Limit } from './list.ts'

/** The counters of limits. They belong to no company, since many of them count networks. */

/** One use of a limit, or the refund of one. */
export interface Use {
  counter: string
  now: number
}

export interface Count {
  /** Uses in the window, this one included; more than the limit's `max` if this one must be refused. */
  uses: number
  windowEndsAt: Date
}

/** Adds the uses to their counters. Returns one count per use, as if they came one by one. */
export async function countUses(db: Executor, limit: Limit, uses: Use[]): Promise<Count[]> {
  const byCounter = groupByCounter(uses)
  const { endsAt, isOver, end } = windowAt(limit, Math.max(...uses.map(({ now }) => now)))
  const { rows } = await sql<{ counter: string; uses: number; windowEndsAt: Date }>`
    insert into rate_counters as c (counter, hits, window_ends_at)
    select i.counter, i.hits, ${endsAt} from ${countsOf(byCounter)}
    order by i.counter
    on conflict (counter) do update set
      -- Uses beyond the limit were refused, so they do not count.
      hits = excluded.hits + case when ${isOver} then 0 else least(c.hits, ${limit.max}) end,
      window_ends_at = ${end}
    returning counter, hits as uses, window_ends_at as "windowEndsAt"`.execute(db)
  const after = new Map(rows.map((row) => [row.counter, row]))
  return uses.map((use) => {
    const row = after.get(use.counter)
    const together = byCounter.get(use.counter)
    if (!row || !together) throw new Error('a counter returned no row')
    return { uses: row.uses - together.length + together.indexOf(use) + 1, windowEndsAt: row.windowEndsAt }
  })
}

/** Takes the uses off their counters again, not below zero. A counter that is gone stays gone. */
export async function refundUses(db: Executor, { max }: Limit, uses: Use[]): Promise<true[]> {
  await sql`
    with i as (select * from ${countsOf(groupByCounter(uses))}),
    -- In the order in which uses lock them, so that statements cannot wait for each other in a circle.
    c as (select counter from rate_counters where counter in (select counter from i) order by counter for update)
    update rate_counters r set hits = greatest(0, least(r.hits, ${max}) - i.hits)
    from i join c using (counter) where r.counter = i.counter`.execute(db)
  return uses.map(() => true)
}

function groupByCounter(uses: Use[]): Map<string, Use[]> {
  return Map.groupBy(uses, ({ counter }) => counter)
}

/** The counters with their number of uses, as the table `i`. */
function countsOf(byCounter: Map<string, Use[]>) {
  const hits = [...byCounter.values()].map(({ length }) => length)
  return sql`unnest(${[...byCounter.keys()]}::text[], ${hits}::int[]) as i (counter, hits)`
}

/** Deletes the counters whose names begin with `prefix`. It reads the whole table: for operators only. */
export async function deleteCountersLike(db: Executor, prefix: string): Promise<void> {
  await sql`delete from rate_counters where starts_with(counter, ${prefix})`.execute(db)
}
