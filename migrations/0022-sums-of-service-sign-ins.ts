import { type Kysely, sql } from 'kysely'

/** Sign-ins of service accounts, summed as refused ones are: a fleet signs in often, and each row is an entry of the trail. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // No foreign keys: entries outlive users.
    sql`create table service_sign_ins (
      company_id uuid not null,
      minute timestamptz not null,
      user_id uuid not null,
      network text collate "C" not null,
      audit_id uuid not null,
      count integer not null,
      superseded integer not null,
      ip_address text not null,
      primary key (company_id, minute, user_id, network)
    )`,
    sql`comment on column service_sign_ins.network is 'empty for the networks that found no room in the minute'`,
    sql`comment on column service_sign_ins.audit_id is 'the id of the entry in the audit trail'`,
    sql`comment on column service_sign_ins.superseded is 'how many sessions these sign-ins ended'`,
    sql`comment on column service_sign_ins.ip_address is 'of the last one'`,
    sql`create index service_sign_ins_by_user on service_sign_ins (company_id, user_id, minute)`,
    sql`create index service_sign_ins_by_minute on service_sign_ins (minute)`,
  ]
  for (const statement of statements) await statement.execute(db)
}
