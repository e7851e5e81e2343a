import { type Kysely, sql } from 'kysely'

/**
 * Numbers of events with the digits that were sent. `data` keeps the one spelling of each value that the previous release wrote,
 * by which it recognizes duplicates. So both releases can run side by side.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table events add spellings text`.execute(db)
  await sql`comment on column events.spellings is
    'numbers that were sent in another spelling than in data: pairs of an offset in data and that spelling'`.execute(
    db,
  )
}
