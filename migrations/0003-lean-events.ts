import { type Kysely, sql } from 'kysely'

/**
 * The statement that stores events reads their company anyway, and companies are never deleted: the foreign
 * key found nothing, and locked the company's row once more for each event.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  // In the order in which requests lock them.
  await sql`lock table companies, events in access exclusive mode`.execute(db)
  await sql`alter table events drop constraint events_company_id_fkey`.execute(db)
}
