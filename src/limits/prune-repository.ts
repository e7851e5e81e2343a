import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteLapsed } from '../database/prune.ts'

/** Deletes at most `max` counters whose window ended before `before`; returns how many. */
export async function pruneCounters(db: Executor, before: Date, max: number): Promise<number> {
  const counters = { table: 'rate_counters', key: ['counter'] } as const
  return await deleteLapsed(db, counters, sql`window_ends_at < ${before}`, max)
}
