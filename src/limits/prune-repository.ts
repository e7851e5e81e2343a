import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Deletes at most `max` counters whose window ended before `before`; returns how many. */
export async function pruneCounters(db: Executor, before: Date, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with lapsed as (
      select counter from rate_counters where window_ends_at < ${before}
      limit ${max} for update skip locked
    )
    delete from rate_counters c using lapsed l where c.counter = l.counter`.execute(db)
  return Number(numAffectedRows)
}
