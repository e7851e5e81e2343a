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

/** Queues a mail for each row of `source`, the part of a statement after `from`. */
export function mailEach(source: RawBuilder<unknown>, mail: MailExpressions) {
  return sql`
    insert into mail_outbox (company_id, mail_id, kind, recipient, facts, created_at, next_attempt_at)
    select ${mail.companyId}, ${mail.mailId}, ${mail.kind}, ${mail.recipient}, ${mail.data}, ${mail.createdAt},
      ${mail.createdAt}
    from ${source}`
}
