import { type Kysely, sql } from 'kysely'

/** An emailed code works only in the session that requested it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table mailbox_codes add column session_id uuid`,
    sql`comment on column mailbox_codes.session_id is
      'null if an instance of an earlier release emailed the code: then it works in every session of the member'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
