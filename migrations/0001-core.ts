import { type Kysely, sql } from 'kysely'

/**
 * Every tenant table starts its primary key with company_id and refers to its neighbours by composite keys:
 * tenants stay apart, and company_id can become the distribution column of a distributed Postgres.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`create table roles (
      role text primary key,
      permissions text[] not null
    )`,
    sql`create table plans (
      plan text primary key,
      features text[] not null
    )`,
    sql`insert into roles (role, permissions) values
      ('admin', '{risk:read,risk:assess,reviews:manage,feedback:write,graph:read,analytics:read,webhook-secret:manage,policy:manage,billing:manage}'),
      ('analyst', '{risk:read,risk:assess,reviews:manage,feedback:write,graph:read,analytics:read}'),
      ('developer', '{risk:read,risk:assess,analytics:read}'),
      ('viewer', '{risk:read,analytics:read}')`,
    sql`insert into plans (plan, features) values
      ('starter', '{risk_assessment}'),
      ('growth', '{risk_assessment,event_ingest,reviews,analytics}'),
      ('enterprise', '{risk_assessment,event_ingest,reviews,analytics,graph,policy}')`,

    sql`create table companies (
      company_id uuid primary key,
      name text not null,
      status text not null check (status in ('active', 'suspended')),
      created_at timestamptz not null
    )`,
    sql`create table subscriptions (
      company_id uuid primary key references companies,
      plan text not null references plans,
      status text not null check (status in ('trialing', 'active', 'past_due', 'canceled', 'suspended')),
      current_period_end timestamptz not null
    )`,
    sql`create table users (
      company_id uuid not null references companies,
      user_id uuid not null,
      email text not null,
      name text not null,
      role text not null references roles,
      assignments text[] not null,
      status text not null check (status in ('active', 'disabled')),
      password_hash text not null,
      email_verified_at timestamptz,
      created_at timestamptz not null,
      primary key (company_id, user_id),
      unique (company_id, email)
    )`,

    // Who a user is and what they may do, as of the statement that reads it.
    sql`create view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        r.permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,

    // Rotation rewrites a row of sessions and touches no indexed column, so with room left on the page it
    // stays a heap-only update: no index grows with the number of refreshes.
    sql`create table sessions (
      company_id uuid not null,
      session_id uuid not null,
      user_id uuid not null,
      kind text not null check (kind in ('token', 'cookie')),
      cookie_hash bytea check ((cookie_hash is not null) = (kind = 'cookie')),
      generation integer not null default 0,
      created_at timestamptz not null,
      issued_at timestamptz not null,
      expires_at timestamptz not null,
      max_expires_at timestamptz not null,
      ended_at timestamptz,
      end_reason text check (end_reason in ('logout', 'refresh_reuse', 'expired', 'password_changed',
        'password_reset', 'user_disabled', 'company_suspended', 'ended_by_user', 'ended_by_operator')),
      rotated_at timestamptz,
      recent_keys bigint[] not null default '{}',
      window_started_at timestamptz,
      window_rotations integer not null default 0,
      user_agent text,
      ip_address text,
      primary key (company_id, session_id),
      foreign key (company_id, user_id) references users,
      check ((ended_at is null) = (end_reason is null))
    ) with (fillfactor = 80)`,
    sql`comment on column sessions.issued_at is
      'when the current generation was issued, or a cookie last renewed, by the clock of the instance'`,
    sql`comment on column sessions.rotated_at is
      'when the previous generation was spent, by the clock of the database, which all instances share'`,
    sql`comment on column sessions.recent_keys is
      'hashes of the idempotency keys of the latest rotations, newest last; null for a rotation without one'`,
    sql`create index sessions_by_user on sessions (company_id, user_id)`,
    // Not unique: 256 random bits need no constraint, and one without company_id could not be distributed.
    sql`create index sessions_by_cookie on sessions (cookie_hash) where cookie_hash is not null`,

    sql`create table signing_secrets (
      company_id uuid primary key references companies,
      version integer not null check (version > 0),
      sealed_secret text not null,
      hint text not null,
      created_at timestamptz not null,
      created_by uuid not null,
      last_used_at timestamptz,
      foreign key (company_id, created_by) references users
    )`,

    // data is json, not jsonb: it is stored as it was validated and compared as jsonb on the rare conflict.
    sql`create table events (
      company_id uuid not null references companies,
      event_id text not null,
      type text not null,
      occurred_at timestamptz,
      received_at timestamptz not null,
      data json not null,
      primary key (company_id, event_id)
    )`,

    sql`create table signing_keys (
      sequence integer primary key,
      key_id text not null unique,
      public_jwk json not null,
      sealed_private_key text not null,
      created_at timestamptz not null,
      signs_from timestamptz not null
    )`,

    sql`create table rate_counters (
      counter text primary key,
      hits integer not null,
      window_ends_at timestamptz not null
    ) with (fillfactor = 80)`,

    // No foreign keys: it also records attempts on companies and users that do not exist.
    sql`create table audit_events (
      company_id uuid not null,
      audit_id uuid not null,
      occurred_at timestamptz not null,
      action text not null,
      outcome text not null,
      actor text not null,
      subject text,
      session_id uuid,
      ip_address text,
      primary key (company_id, audit_id)
    )`,
    sql`create function refuse_change() returns trigger language plpgsql as
      $$ begin raise exception '% is append-only', tg_table_name; end $$`,
    sql`create trigger append_only before update or delete or truncate on audit_events
      for each statement execute function refuse_change()`,
  ]
  for (const statement of statements) await statement.execute(db)
}
