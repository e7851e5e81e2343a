import { type Kysely, sql } from 'kysely'

/**
 * Second factors of people: authenticator apps, passkeys and recovery codes; sign-ins and proofs that wait for one; and
 * the policy of a company.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // In the order in which requests lock them that come from a company; those that begin with a mail wait at most.
    sql`lock table companies, users, mail_outbox in access exclusive mode`,

    sql`alter table companies
      add second_factor_policy text not null default 'optional'
        check (second_factor_policy in ('optional', 'admins', 'everyone'))`,
    sql`comment on column companies.second_factor_policy is 'whose sessions must have proven a second factor'`,

    sql`alter table users
      add second_factors text[] not null default '{}' check (second_factors <@ '{passkey,totp}'),
      add passkey_handle bytea,
      add wrong_codes integer not null default 0,
      add factor_missing_told_at timestamptz,
      add constraint users_service_factors_check check (kind = 'person' or second_factors = '{}')`,
    sql`comment on column users.second_factors is
      'the kinds of the confirmed rows of second_factors, written with them, so that sign-in reads no other table'`,
    sql`comment on column users.passkey_handle is 'the user handle of passkeys (WebAuthn): 64 random bytes'`,
    sql`comment on column users.wrong_codes is 'wrong second-factor codes since the last right one'`,
    sql`comment on column users.factor_missing_told_at is
      'when the user was last told by mail of a right password without its second factor'`,

    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        r.permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason,
        u.kind as user_kind, u.second_factors, c.second_factor_policy
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,

    // Unconfirmed rows are authenticator apps that are being set up.
    sql`create table second_factors (
      company_id uuid not null,
      factor_id uuid not null,
      user_id uuid not null,
      kind text not null check (kind in ('totp', 'passkey')),
      name text not null,
      created_at timestamptz not null,
      confirmed_at timestamptz,
      last_used_at timestamptz,
      mailbox_proven boolean not null default false,
      sealed_secret text,
      last_step bigint,
      credential_id bytea,
      public_key bytea,
      sign_count bigint,
      backup_eligible boolean,
      transports text[],
      primary key (company_id, factor_id),
      foreign key (company_id, user_id) references users on delete cascade,
      check ((sealed_secret is not null) = (kind = 'totp')),
      check ((kind = 'passkey') = all (array[credential_id is not null, public_key is not null,
        sign_count is not null, backup_eligible is not null, transports is not null])),
      check (kind = 'totp' or confirmed_at is not null)
    )`,
    sql`create index second_factors_by_user on second_factors (company_id, user_id)`,
    // A passkey names neither its user nor its company.
    sql`create unique index second_factors_by_credential on second_factors (credential_id)
      where credential_id is not null`,
    sql`comment on column second_factors.last_step is
      'the 30 seconds of the last code that was used (RFC 6238), counted from 1970: no code of these or before works'`,

    sql`create table recovery_codes (
      company_id uuid not null,
      user_id uuid not null,
      digest bytea not null,
      key_id text not null,
      primary key (company_id, user_id, digest),
      foreign key (company_id, user_id) references users on delete cascade
    )`,
    sql`comment on column recovery_codes.key_id is 'the master key of which the key of the digest was derived'`,

    // Each carries the epochs of its user and its company, as a session does: what ends sessions ends it too.
    sql`create table second_factor_challenges (
      company_id uuid not null,
      user_id uuid not null,
      challenge_hash bytea not null,
      purpose text not null check (purpose in ('sign_in', 'proof', 'enrolment')),
      mode text check (mode in ('token', 'cookie')),
      session_id uuid,
      password_proven boolean not null,
      tries integer not null default 0,
      answered_by bytea,
      user_epoch integer not null,
      company_epoch integer not null,
      network text not null,
      ip_address text not null,
      created_at timestamptz not null,
      expires_at timestamptz not null,
      primary key (company_id, user_id, challenge_hash),
      foreign key (company_id, user_id) references users on delete cascade,
      check ((purpose = 'sign_in') = (mode is not null)),
      check ((purpose = 'sign_in') = (session_id is null))
    )`,
    sql`create index second_factor_challenges_by_hash on second_factor_challenges (challenge_hash)`,
    sql`create index second_factor_challenges_by_end on second_factor_challenges (expires_at)`,
    sql`comment on column second_factor_challenges.answered_by is
      'a hash of the request that has answered it, which can ask for the lost answer again'`,

    // Challenges of sign-ins by passkey alone are stored when they are used: nobody is known before.
    sql`create table used_passkey_challenges (
      challenge_hash bytea primary key,
      expires_at timestamptz not null
    )`,
    sql`create index used_passkey_challenges_by_end on used_passkey_challenges (expires_at)`,

    sql`create table mailbox_codes (
      company_id uuid not null,
      user_id uuid not null,
      digest bytea not null,
      tries integer not null default 0,
      expires_at timestamptz not null,
      primary key (company_id, user_id),
      foreign key (company_id, user_id) references users on delete cascade
    )`,

    sql`alter table mail_outbox
      drop constraint mail_outbox_kind_check,
      add constraint mail_outbox_kind_check check (kind in ('verify_email', 'password_reset', 'invitation',
        'password_changed', 'sign_in_after_lockout', 'password_guessing', 'refresh_reuse', 'companies',
        'email_change', 'email_change_requested', 'email_changed', 'second_factor_added', 'second_factor_removed',
        'second_factors_reset', 'second_factor_missing', 'recovery_code_used', 'recovery_codes_replaced',
        'code_guessing', 'mailbox_code', 'security_policy_changed'))`,
  ]
  for (const statement of statements) await statement.execute(db)
}
