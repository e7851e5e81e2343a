import { type Kysely, sql } from 'kysely'

/**
 * What lets a company run itself: members that are servers, invitations with a row of their own, changes of one's
 * e-mail, and when and how a session's user last proved who they are.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // In the order in which requests lock them.
    sql`lock table companies, users, sessions, mail_outbox, one_time_tokens in access exclusive mode`,

    sql`update roles set permissions = permissions || '{members:manage,audit:read}' where role = 'admin'`,

    sql`alter table users
      add kind text not null default 'person' check (kind in ('person', 'service')),
      add last_sign_in_at timestamptz,
      add pending_email text`,
    sql`comment on column users.last_sign_in_at is 'to the hour'`,
    sql`comment on column users.pending_email is 'takes the place of email once a mailed link has proven it'`,
    sql`create index users_by_name on users (company_id, lower(name), user_id) where status <> 'deleted'`,
    // For those who have forgotten their company.
    sql`create index users_by_proven_email on users (email) where email_verified_at is not null`,

    // Not filled in: the sessions of before were proven by password when they were created.
    sql`alter table sessions add auth_time timestamptz, add amr text[]`,
    sql`comment on column sessions.auth_time is
      'when the user last proved who they are (RFC 9068); null: when the session was created'`,
    sql`comment on column sessions.amr is 'and by which methods (RFC 8176); null: by password'`,

    sql`create or replace view accounts as
      select u.company_id, u.user_id, u.email, u.name, u.role, u.assignments, u.status as user_status,
        r.permissions, c.name as company_name, c.status as company_status,
        s.status as subscription_status, s.plan, s.current_period_end, p.features,
        u.session_epoch as user_epoch, u.session_epoch_reason as user_epoch_reason,
        c.session_epoch as company_epoch, c.session_epoch_reason as company_epoch_reason,
        u.kind as user_kind
      from users u
      join roles r on r.role = u.role
      join companies c on c.company_id = u.company_id
      join subscriptions s on s.company_id = u.company_id
      join plans p on p.plan = s.plan`,

    // Its link is a one-time token for the same e-mail, which is worth nothing without this row.
    sql`create table invitations (
      company_id uuid not null references companies,
      invitation_id uuid not null,
      email text not null,
      role text not null references roles,
      assignments text[] not null,
      invited_by uuid,
      mail_id uuid not null,
      created_at timestamptz not null,
      expires_at timestamptz,
      renewed_at timestamptz,
      primary key (company_id, invitation_id),
      unique (company_id, email),
      foreign key (company_id, invited_by) references users
    )`,
    sql`comment on column invitations.invited_by is 'null: an operator'`,
    sql`comment on column invitations.expires_at is 'null until its mail was sent'`,
    sql`comment on column invitations.renewed_at is 'when its mail was asked for again'`,
    sql`create index invitations_by_sender on invitations (company_id, invited_by) where invited_by is not null`,
    sql`insert into invitations (company_id, invitation_id, email, role, assignments, mail_id, created_at, expires_at)
      select distinct on (company_id, email) company_id, gen_random_uuid(), email, role, '{environment:production}',
        mail_id, created_at, expires_at
      from (
        select t.company_id, t.email, t.role, gen_random_uuid() as mail_id, t.created_at, t.expires_at
        from one_time_tokens t where t.purpose = 'invite'
        union all
        select m.company_id, m.recipient, m.facts ->> 'role', m.mail_id, m.created_at, null
        from mail_outbox m join roles r on r.role = m.facts ->> 'role' join companies c on c.company_id = m.company_id
        where m.kind = 'invitation' and m.sent_at is null and m.failed_at is null
      ) open
      order by company_id, email, created_at desc`,

    // A token of a change names whose e-mail it changes: two users can ask for the same new one.
    sql`alter table one_time_tokens
      add user_id uuid,
      drop constraint one_time_tokens_purpose_check,
      add constraint one_time_tokens_purpose_check check (purpose in ('verify', 'reset', 'invite', 'confirm')),
      add constraint one_time_tokens_user_check check ((user_id is not null) = (purpose = 'confirm'))`,
    sql`alter table mail_outbox
      drop constraint mail_outbox_kind_check,
      add constraint mail_outbox_kind_check check (kind in ('verify_email', 'password_reset', 'invitation',
        'password_changed', 'sign_in_after_lockout', 'password_guessing', 'refresh_reuse', 'companies',
        'email_change', 'email_change_requested', 'email_changed'))`,
  ]
  for (const statement of statements) await statement.execute(db)
}
