import { type Kysely, sql } from 'kysely'

/** What a search in the names of members looks into, since Postgres does not know marks from letters. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table users add search_name text`,
    sql`comment on column users.search_name is
      'the name in NFKD, without marks, in lower case; null: written by an instance from before this column'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
