import { type Kysely, sql } from 'kysely'

/** Counters guard credentials, so a standby that takes over goes on with them: an unlogged table is empty there. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table rate_counters set logged`.execute(db)
}
