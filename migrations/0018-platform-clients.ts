import { type Kysely, sql } from 'kysely'

/** The services of the platform that may ask about sessions, or read events. They belong to no company. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`create table platform_clients (
      client_id uuid primary key,
      name text not null,
      scopes text[] not null,
      secret_hash bytea not null,
      former_secret_hash bytea,
      created_at timestamptz not null,
      last_used_at timestamptz
    )`,
    sql`comment on table platform_clients is 'few: every process reads all of them once a second'`,
    sql`comment on column platform_clients.former_secret_hash is
      'of the secret before, which works until the rotation is finished; null: there is none'`,
    sql`comment on column platform_clients.last_used_at is 'the hour'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
