import { type Kysely, sql } from 'kysely'

const endReasons = sql`'logout', 'refresh_reuse', 'expired', 'password_changed', 'password_reset', 'superseded',
  'user_disabled', 'user_deleted', 'company_suspended', 'ended_by_user', 'ended_by_admin', 'ended_by_operator'`

/**
 * Ends of all sessions of a user or a company in one write, whatever their number; a bound on the live sessions
 * of a user; and the networks and devices from which a user has signed in.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // In the order in which requests lock them.
    sql`lock table companies, users, sessions, mail_outbox in access exclusive mode`,
    sql`alter table companies
      add session_epoch integer not null default 0,
      add session_epoch_reason text check (session_epoch_reason in (${endReasons}))`,
    sql`alter table users
      add session_epoch integer not null default 0,
      add session_epoch_reason text check (session_epoch_reason in (${endReasons})),
      add sessions_opened bigint not null default 0,
      add guessing_told_at timestamptz`,
    sql`comment on column users.session_epoch is
      'counts the ends of all sessions of the user; sessions of an earlier epoch have ended'`,
    sql`comment on column users.session_epoch_reason is 'why the sessions of earlier epochs have ended'`,
    sql`comment on column users.sessions_opened is
      'changes with each new session, so that a sign-in notices another one at the same time'`,

    sql`comment on column users.guessing_told_at is
      'when the user was last told by mail of wrong passwords from many networks'`,

    sql`alter table sessions
      add user_epoch integer not null default 0,
      add company_epoch integer not null default 0,
      add network text,
      add recent_spent_at timestamptz[] not null default '{}',
      drop constraint sessions_end_reason_check,
      add constraint sessions_end_reason_check check (end_reason in (${endReasons}))`,
    sql`comment on column sessions.network is 'the network that opened it, as limits count networks'`,
    sql`comment on column sessions.recent_spent_at is
      'for each of recent_keys: when its token was spent, by the clock of the database'`,
    // A rotation changes none of these columns, so it stays a heap-only update. Ended sessions are not in it, so
    // that the live ones of a user are found among any number of them.
    sql`create index sessions_live_by_user on sessions (company_id, user_id, user_epoch) where ended_at is null`,
    sql`drop index sessions_by_user`,

    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        r.permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,

    // Digests only: a copy of the table shows no network, and opens no device.
    sql`create table known_clients (
      company_id uuid not null,
      user_id uuid not null,
      kind text not null check (kind in ('network', 'device')),
      digest bytea not null,
      known_until timestamptz not null,
      primary key (company_id, user_id, kind, digest),
      foreign key (company_id, user_id) references users on delete cascade
    )`,
    sql`create index known_clients_by_end on known_clients (known_until)`,

    sql`alter table mail_outbox
      drop constraint mail_outbox_kind_check,
      add constraint mail_outbox_kind_check check (kind in ('verify_email', 'password_reset', 'invitation',
        'password_changed', 'sign_in_after_lockout', 'password_guessing', 'refresh_reuse'))`,
  ]
  for (const statement of statements) await statement.execute(db)
}
