import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Limit } from '../config.ts'
import { type LimitState, Problem, rateLimited, statusOf } from '../errors.ts'
import { type Batch, createBatch } from './batch.ts'
import type { Executor } from './connect.ts'

/**
 * Counters that guard credentials. They live in Postgres so that they hold across instances, and one
 * statement counts and decides, so that parallel requests cannot get past one. Hits that arrive together
 * are counted together: a flood of them must not occupy the connections, waiting for one row.
 */
export interface Counters {
  /**
   * Counts one hit against a limit; a window starts with its first hit.
   * @throws Problem rate_limited if the window has all its hits already; then nothing more is counted
   */
  takeHit(limit: Limit, subject: readonly string[], now: number): Promise<LimitState>
  /**
   * Counts one hit for what `work` is about to do, and takes it back if that fails through no fault of the
   * caller's, who is told to try again.
   * @throws Problem rate_limited
   */
  countFor<Result>(
    limit: Limit,
    subject: readonly string[],
    now: number,
    work: (state: LimitState) => Promise<Result>,
  ): Promise<Result>
  /** Takes one hit back: what was counted beforehand turned out not to be one. */
  returnHit(limit: Limit, subject: readonly string[], now: number): Promise<void>
}

interface Hit {
  counter: string
  now: number
}

interface Count {
  /** Those of the window up to this one; more than the limit's `max` when it was one too many. */
  hits: number
  windowEndsAt: Date
}

export function createCounters(db: Executor): Counters {
  const batches = new Map<string, { take: Batch<Hit, Count>; giveBack: Batch<Hit, Count> }>()

  function batchesOf(limit: Limit) {
    let found = batches.get(limit.name)
    if (!found) {
      const options = { maxInFlight: 1 }
      found = {
        take: createBatch({ ...options, run: (hits) => count(db, limit, hits, 1) }),
        giveBack: createBatch({ ...options, run: (hits) => count(db, limit, hits, -1) }),
      }
      batches.set(limit.name, found)
    }
    return found
  }

  const counters: Counters = {
    async takeHit(limit, subject, now) {
      const { hits, windowEndsAt } = await batchesOf(limit).take({ counter: counterOf(limit, subject), now })
      const state = {
        ...limit,
        remaining: Math.max(0, limit.max - hits),
        resetSeconds: Math.max(1, Math.ceil((windowEndsAt.getTime() - now) / 1000)),
      }
      if (hits > limit.max) throw rateLimited(state)
      return state
    },
    async countFor(limit, subject, now, work) {
      const state = await counters.takeHit(limit, subject, now)
      try {
        return await work(state)
      } catch (error) {
        const isOurs = !(error instanceof Problem) || statusOf(error.code) >= 500
        // What went wrong is told, and not what went wrong after it.
        if (isOurs) await counters.returnHit(limit, subject, now).catch(() => {})
        throw error
      }
    },
    async returnHit(limit, subject, now) {
      await batchesOf(limit).giveBack({ counter: counterOf(limit, subject), now })
    },
  }
  return counters
}

/** What is counted: a limit and whom it holds for. Digested, so that the table holds no addresses. */
function counterOf(limit: Limit, subject: readonly string[]): string {
  return `${limit.name}:${createHash('sha256').update(JSON.stringify(subject)).digest('base64url').slice(0, 22)}`
}

/** Adds `sign` for each hit to its counter, one outcome a hit, in order, as if they had come one by one. */
async function count(
  db: Executor,
  { max, windowSeconds }: Limit,
  hits: Hit[],
  sign: 1 | -1,
): Promise<Count[]> {
  const byCounter = Map.groupBy(hits, ({ counter }) => counter)
  const at = Math.max(...hits.map(({ now }) => now))
  const endsAt = new Date(at + windowSeconds * 1000)
  const { rows } = await sql<Count & { counter: string }>`
    insert into rate_counters as c (counter, hits, window_ends_at)
    select i.counter, i.hits, ${endsAt}
    from unnest(${[...byCounter.keys()]}::text[], ${[...byCounter.values()].map(({ length }) => sign * length)}::int[])
      as i (counter, hits)
    order by i.counter
    on conflict (counter) do update set
      -- What exceeded the limit before was refused, and counts for nothing.
      hits = greatest(0, excluded.hits + case when c.window_ends_at <= ${new Date(at)} then 0 else least(c.hits, ${max}) end),
      window_ends_at = case when c.window_ends_at <= ${new Date(at)} then ${endsAt} else c.window_ends_at end
    returning counter, hits, window_ends_at as "windowEndsAt"`.execute(db)
  const after = new Map(rows.map((row) => [row.counter, row]))
  return hits.map((hit) => {
    const row = after.get(hit.counter)
    const together = byCounter.get(hit.counter)
    if (!row || !together) throw new Error('a counter returned no row')
    return { hits: row.hits - together.length + together.indexOf(hit) + 1, windowEndsAt: row.windowEndsAt }
  })
}
