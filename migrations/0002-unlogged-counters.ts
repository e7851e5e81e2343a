import { type Kysely, sql } from 'kysely'

/**
 * Counters live for minutes and are written by every sign-in: they need no log. A Postgres that crashed starts
 * counting anew, and so does a replica that takes over; one that was stopped goes on where it was.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table rate_counters set unlogged`.execute(db)
}
