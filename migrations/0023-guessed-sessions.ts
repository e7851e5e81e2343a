import { type Kysely, sql } from 'kysely'

/** Sessions that end after too many wrong re-authentications, and the email about it. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // In the order in which requests lock them.
    sql`lock table sessions, mail_outbox in access exclusive mode`,
    // The rows that are there met a narrower check, so nothing has to be read while requests wait.
    sql`alter table mail_outbox
      drop constraint mail_outbox_kind_check,
      add constraint mail_outbox_kind_check check (kind in ('verify_email', 'password_reset', 'invitation',
        'password_changed', 'sign_in_after_lockout', 'password_guessing', 'refresh_reuse', 'companies',
        'email_change', 'email_change_requested', 'email_changed', 'second_factor_added', 'second_factor_removed',
        'second_factors_reset', 'second_factor_missing', 'recovery_code_used', 'recovery_codes_replaced',
        'code_guessing', 'mailbox_code', 'security_policy_changed', 'first_factor_added',
        'email_changed_without_factor', 'email_change_code', 'email_restored', 'reauthentication_failed')) not valid`,
    sql`alter table sessions
      drop constraint sessions_end_reason_check,
      add constraint sessions_end_reason_check check (end_reason in ('logout', 'refresh_reuse', 'expired',
        'password_changed', 'password_reset', 'superseded', 'user_disabled', 'user_deleted', 'company_suspended',
        'ended_by_user', 'ended_by_admin', 'ended_by_operator', 'reauthentication_failed')) not valid`,
  ]
  for (const statement of statements) await statement.execute(db)
}
