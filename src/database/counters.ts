import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Limit } from '../config.ts'
import { type LimitState, rateLimited } from '../errors.ts'
import type { Executor } from './connect.ts'

/**
 * Counters that guard credentials. They live in Postgres so that they hold across instances, and one
 * statement counts and decides, so that parallel requests cannot get past one.
 */

/** What is counted: a limit and whom it holds for. Digested, so that the table holds no addresses. */
function counterOf(limit: Limit, subject: readonly string[]): string {
  return `${limit.name}:${createHash('sha256').update(JSON.stringify(subject)).digest('base64url').slice(0, 22)}`
}

/**
 * Counts one hit against a limit; a window starts with its first hit.
 * @throws Problem rate_limited if the window has all its hits already; then nothing more is counted
 */
export async function takeHit(
  db: Executor,
  limit: Limit,
  subject: readonly string[],
  now: number,
): Promise<LimitState> {
  const { max, windowSeconds } = limit
  const at = new Date(now)
  const endsAt = new Date(now + windowSeconds * 1000)
  const { rows } = await sql<{ hits: number; windowEndsAt: Date }>`
    insert into rate_counters as c (counter, hits, window_ends_at)
    values (${counterOf(limit, subject)}, 1, ${endsAt})
    on conflict (counter) do update set
      hits = case when c.window_ends_at <= ${at} then 1 else least(c.hits, ${max}) + 1 end,
      window_ends_at = case when c.window_ends_at <= ${at} then ${endsAt} else c.window_ends_at end
    returning hits, window_ends_at as "windowEndsAt"`.execute(db)
  const [row] = rows
  if (!row) throw new Error('a counter returned no row')
  const state = {
    ...limit,
    remaining: Math.max(0, max - row.hits),
    resetSeconds: Math.max(1, Math.ceil((row.windowEndsAt.getTime() - now) / 1000)),
  }
  if (row.hits > max) throw rateLimited(state)
  return state
}

/** Takes one hit back: what was counted beforehand turned out not to be one. */
export async function returnHit(db: Executor, limit: Limit, subject: readonly string[]): Promise<void> {
  await sql`update rate_counters set hits = greatest(least(hits, ${limit.max}) - 1, 0)
    where counter = ${counterOf(limit, subject)}`.execute(db)
}
