import { type Kysely, sql } from 'kysely'

/** What lets companies come in and users help themselves: one-time tokens, and mail that waits to be sent. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // Of a token only its hash is stored. It is made when its mail is sent, and takes the place of older ones of
    // its purpose and address when the mail server has accepted that.
    sql`create table one_time_tokens (
      company_id uuid not null references companies,
      purpose text not null check (purpose in ('verify', 'reset', 'invite')),
      email text not null,
      token_hash bytea not null,
      role text references roles check ((role is not null) = (purpose = 'invite')),
      created_at timestamptz not null,
      expires_at timestamptz not null,
      primary key (company_id, purpose, email, token_hash)
    )`,
    // Not unique: 256 random bits need no constraint, and one without company_id could not be distributed.
    sql`create index one_time_tokens_by_hash on one_time_tokens (token_hash)`,
    sql`create index one_time_tokens_by_end on one_time_tokens (expires_at)`,

    // No foreign keys: who asks for an account that does not exist leaves the same row as anyone else.
    sql`create table mail_outbox (
      company_id uuid not null,
      mail_id uuid not null,
      kind text not null check (kind in ('verify_email', 'password_reset', 'invitation', 'password_changed',
        'sign_in_after_lockout', 'refresh_reuse')),
      recipient text not null,
      facts json not null,
      created_at timestamptz not null,
      attempts integer not null default 0,
      next_attempt_at timestamptz not null,
      sent_at timestamptz,
      failed_at timestamptz,
      last_error text,
      primary key (company_id, mail_id)
    )`,
    sql`comment on column mail_outbox.next_attempt_at is
      'when it is due; whoever takes it to send it moves this on, so that nobody else does meanwhile'`,
    sql`create index mail_outbox_due on mail_outbox (next_attempt_at) where sent_at is null and failed_at is null`,
    sql`create index mail_outbox_settled on mail_outbox (coalesce(sent_at, failed_at))
      where coalesce(sent_at, failed_at) is not null`,
    // A hit changes no column of it, and so stays a heap-only update.
    sql`create index rate_counters_by_end on rate_counters (window_ends_at)`,

    sql`alter table users add locked_out_at timestamptz`,
    sql`comment on column users.locked_out_at is
      'when somebody last guessed until no more guesses were taken; null once the user has signed in again'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
