import { type RawBuilder, sql } from 'kysely'
import type { MailKind } from './letters.ts'

/** Queues mail in the statement that causes it, so that both are committed together. */

interface MailExpressions {
  companyId: RawBuilder<unknown>
  mailId: RawBuilder<unknown>
  kind: RawBuilder<MailKind>
  recipient: RawBuilder<unknown>
  data: RawBuilder<unknown>
  createdAt: RawBuilder<unknown>
}

export function mailEach(source: RawBuilder<unknown>, mail: MailExpressions) {
  return sql`
    insert into mail_outbox (company_id, mail_id, kind, recipient, facts, created_at, next_attempt_at)
    select ${mail.companyId}, ${mail.mailId}, ${mail.kind}, ${mail.recipient}, ${mail.data}, ${mail.createdAt},
      ${mail.createdAt}
    from ${source}`
}

/** Locks a mail until the end of the transaction; no row if it was sent, has failed or was deleted. */
export function lockUnsent(companyId: string, mailId: string) {
  return sql`
    select request_number from mail_outbox
    where company_id = ${companyId} and mail_id = ${mailId} and sent_at is null and failed_at is null
    for share`
}

/** `accounts` selects `company_id` and `email`. The links of these mails never work: see `lockUnsent`. */
export function deleteUnsentResets(accounts: RawBuilder<unknown>) {
  return sql`
    with locked as (
      select m.company_id, m.mail_id
      from (${accounts}) a join mail_outbox m on m.company_id = a.company_id and m.recipient = a.email
      where m.kind = 'password_reset' and m.sent_at is null and m.failed_at is null
      order by m.mail_id
      for update of m
    )
    delete from mail_outbox m using locked l where m.company_id = l.company_id and m.mail_id = l.mail_id`
}
