import { type Kysely, sql } from 'kysely'

/** What an account has added to its company, and the emails about new admins. */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`lock table users, service_passwords, mail_outbox in access exclusive mode`,
    sql`alter table users add invited_by uuid`,
    sql`comment on column users.invited_by is
      'the member whose invitation this one accepted; null: nobody, an operator, or unknown to an earlier release'`,
    sql`alter table service_passwords add created_by uuid`,
    sql`comment on column service_passwords.created_by is
      'the member who issued it; null: an operator, or unknown to an earlier release'`,
    // The rows that are there met a narrower check, so nothing has to be read while requests wait.
    sql`alter table mail_outbox
      drop constraint mail_outbox_kind_check,
      add constraint mail_outbox_kind_check check (kind in ('verify_email', 'password_reset', 'invitation',
        'password_changed', 'sign_in_after_lockout', 'password_guessing', 'refresh_reuse', 'companies',
        'email_change', 'email_change_requested', 'email_changed', 'second_factor_added', 'second_factor_removed',
        'second_factors_reset', 'second_factor_missing', 'recovery_code_used', 'recovery_codes_replaced',
        'code_guessing', 'mailbox_code', 'security_policy_changed', 'first_factor_added',
        'email_changed_without_factor', 'email_change_code', 'email_restored', 'reauthentication_failed',
        'admin_code', 'admin_added')) not valid`,
  ]
  for (const statement of statements) await statement.execute(db)
}
