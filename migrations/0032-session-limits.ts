import { type Kysely, sql } from 'kysely'

/** Session limits per company. The previous release neither reads nor sets them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // As requests do: the view, then its tables.
    sql`lock table accounts in access exclusive mode`,
    sql`alter table companies
      add session_idle_seconds int check (session_idle_seconds between 300 and 604800),
      add session_max_age_seconds int check (session_max_age_seconds between 900 and 2592000),
      add check (session_max_age_seconds >= session_idle_seconds)`,
    sql`comment on column companies.session_idle_seconds is
      'a session that is unused for longer has expired; null: as the service is configured'`,
    sql`comment on column companies.session_max_age_seconds is
      'a session that is older has expired; null: as the service is configured'`,
    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        array_remove(r.permissions, 'events:inspect') as permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason,
        u.kind as user_kind, u.second_factors, c.second_factor_policy, c.handle as company_handle,
        u.password_epoch, u.former_password_until, r.permissions as all_permissions,
        c.session_idle_seconds, c.session_max_age_seconds
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,
  ]
  for (const statement of statements) await statement.execute(db)
}
