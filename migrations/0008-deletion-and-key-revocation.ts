import { type Kysely, sql } from 'kysely'

/** Deletion of users, of companies, and of companies that nobody verified; revocation of leaked keys. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // In the order in which requests lock them.
    sql`lock table companies, users in access exclusive mode`,
    sql`alter table companies
      add deletion_began_at timestamptz,
      drop constraint companies_status_check,
      add constraint companies_status_check check (status in ('active', 'suspended', 'deleting'))`,
    sql`comment on column companies.deletion_began_at is
      'by the clock of the database; the row stays until no request from before can add anything to it'`,
    sql`create index companies_deleting on companies (company_id) where status = 'deleting'`,

    // The id of a deleted user stays: the audit trail, ended sessions and the signing secret name it.
    sql`alter table users
      alter email drop not null,
      drop constraint users_status_check,
      add constraint users_status_check check (status in ('active', 'disabled', 'deleted')),
      add constraint users_deleted_check check ((status = 'deleted') = (email is null)
        and (email is not null or (name = '' and password_hash = '')))`,
    sql`create index users_unverified on users (created_at) where email_verified_at is null and email is not null`,

    sql`alter table signing_keys add revoked_at timestamptz`,
    sql`comment on column signing_keys.revoked_at is 'from then on no token of the key is accepted: it leaked'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
