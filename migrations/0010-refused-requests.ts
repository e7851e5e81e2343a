import { type Kysely, sql } from 'kysely'

/** Why a company's events were refused, in sums; and the secret before the current one, to tell who still signs with it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`create table refused_requests (
      company_id uuid not null references companies,
      minute timestamptz not null,
      reason text not null,
      network text not null,
      count integer not null,
      first_at timestamptz not null,
      last_at timestamptz not null,
      ip_address text not null,
      webhook_id text,
      clock_skew_seconds integer,
      is_genuine boolean not null,
      primary key (company_id, minute, reason, network)
    )`,
    sql`comment on column refused_requests.clock_skew_seconds is 'how far the clock of the sender was ahead, of the last one'`,
    sql`comment on column refused_requests.is_genuine is 'the signature held, or one has held from this network of late'`,
    sql`create index refused_requests_genuine on refused_requests (company_id, minute) where is_genuine`,
    sql`create index refused_requests_by_minute on refused_requests (minute)`,

    // Apart from the secret in force, so that what verifies signatures cannot read it.
    sql`create table former_signing_secrets (
      company_id uuid primary key references companies,
      version integer not null,
      sealed_secret text not null,
      replaced_at timestamptz not null
    )`,
    sql`create index former_signing_secrets_by_time on former_signing_secrets (replaced_at)`,
  ]
  for (const statement of statements) await statement.execute(db)
}
