import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
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

/** Adds `sign` to the counter of each use. Returns one count per use, as if they came one by one. */
export async function countUses(
  db: Executor,
  { max, windowSeconds }: Limit,
  uses: Use[],
  sign: 1 | -1,
): Promise<Count[]> {
  const byCounter = Map.groupBy(uses, ({ counter }) => counter)
  const added = [...byCounter.values()].map(({ length }) => sign * length)
  const now = new Date(Math.max(...uses.map((use) => use.now)))
  const endsAt = new Date(now.getTime() + windowSeconds * 1000)
  const isOver = sql`c.window_ends_at <= ${now}`
  const { rows } = await sql<{ counter: string; uses: number; windowEndsAt: Date }>`
    insert into rate_counters as c (counter, hits, window_ends_at)
    select i.counter, i.hits, ${endsAt}
    from unnest(${[...byCounter.keys()]}::text[], ${added}::int[]) as i (counter, hits)
    order by i.counter
    on conflict (counter) do update set
      -- Uses beyond the limit were refused, so they do not count.
      hits = greatest(0, excluded.hits + case when ${isOver} then 0 else least(c.hits, ${max}) end),
      window_ends_at = case when ${isOver} then ${endsAt} else c.window_ends_at end
    returning counter, hits as uses, window_ends_at as "windowEndsAt"`.execute(db)
  const after = new Map(rows.map((row) => [row.counter, row]))
  return uses.map((use) => {
    const row = after.get(use.counter)
    const together = byCounter.get(use.counter)
    if (!row || !together) throw new Error('a counter returned no row')
    return { uses: row.uses - together.length + together.indexOf(use) + 1, windowEndsAt: row.windowEndsAt }
  })
}
