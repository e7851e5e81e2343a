import { type Kysely, sql } from 'kysely'

/** The latest events of companies whose members watch them, and the permission to do so. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // As requests do: the view, then its tables.
    sql`lock table accounts in access exclusive mode`,
    // The statement that stores events reads this row anyway. Sign-ins would wait for rows of companies.
    sql`alter table subscriptions add watched_since timestamptz, add watched_until timestamptz`,
    sql`comment on column subscriptions.watched_until is
      'until then, its events are also listed in watched_events'`,
    // Without data: readers take them from events. No foreign keys, because their locks would delay ingest.
    sql`create table watched_events (
      company_id uuid not null,
      position bigint generated always as identity,
      event_id text not null,
      received_at timestamptz not null,
      is_truncated boolean not null,
      primary key (company_id, position)
    )`,
    sql`comment on column watched_events.is_truncated is 'the data are too large to be shown'`,
    sql`create index watched_events_by_time on watched_events (received_at)`,

    // The previous release reads the view's permissions, and its sign-ins fail for one that it does not know. The next
    // migration of this view can return all of them as permissions again: later releases accept unknown ones.
    sql`update roles set permissions = permissions || '{events:inspect}' where role in ('admin', 'developer')`,
    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        array_remove(r.permissions, 'events:inspect') as permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason,
        u.kind as user_kind, u.second_factors, c.second_factor_policy, c.handle as company_handle,
        u.password_epoch, u.former_password_until, r.permissions as all_permissions
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,
  ]
  for (const statement of statements) await statement.execute(db)
}
