import { type Kysely, sql } from 'kysely'

/** Passwords of service members that a digest is enough for, two at a time: the one in use, and for a while the one before. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table users
      add password_epoch int not null default 0,
      add former_password_until timestamptz`,
    sql`comment on column users.password_epoch is
      'of service members: grows with each new password; 0: the one of before this column, whose hash is password_hash'`,
    sql`comment on column users.former_password_until is
      'until then the password of the epoch before works too, by the clock of the database; null: it does not'`,

    sql`alter table sessions add password_epoch int not null default 0`,
    sql`comment on column sessions.password_epoch is 'that of the password that opened it, and with which it ends'`,

    sql`create table service_passwords (
      company_id uuid not null,
      user_id uuid not null,
      password_epoch int not null,
      digest bytea,
      hint text,
      created_at timestamptz,
      last_used_at timestamptz,
      primary key (company_id, user_id, password_epoch),
      foreign key (company_id, user_id) references users on delete cascade,
      check ((password_epoch = 0) = (digest is null))
    )`,
    sql`comment on table service_passwords is
      'one row for each password; users says which of them work. That of epoch 0 has a row once it is replaced'`,

    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        r.permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason,
        u.kind as user_kind, u.second_factors, c.second_factor_policy, c.handle as company_handle,
        u.password_epoch, u.former_password_until
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,
  ]
  for (const statement of statements) await statement.execute(db)
}
