import { type Kysely, sql } from 'kysely'

/** Handles of companies, which people type in place of ids. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table companies add handle text constraint companies_handle_key unique`,
    sql`comment on column companies.handle is
      'what people type in place of the id; null: none yet. company_handles says whose it may be'`,

    // One row for each handle, so that its key decides between two companies. No foreign key: it outlives its company.
    sql`create table company_handles (
      handle text primary key,
      company_id uuid not null,
      released_at timestamptz,
      reserved_until timestamptz
    )`,
    sql`comment on column company_handles.released_at is 'null: in use'`,
    sql`comment on column company_handles.reserved_until is
      'then another company can take it; null: in use, or one of the last two that its company had'`,
    sql`create index company_handles_by_company on company_handles (company_id)`,
    sql`create index company_handles_by_end on company_handles (reserved_until) where reserved_until is not null`,

    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        r.permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason,
        u.kind as user_kind, u.second_factors, c.second_factor_policy, c.handle as company_handle
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,
  ]
  for (const statement of statements) await statement.execute(db)
}
