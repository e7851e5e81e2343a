import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { MailData, MailKind } from './letters.ts'

/**
 * The outbox. A mail is written with what caused it and sent later, by one instance at a time: the instance that
 * takes it moves its next attempt past the time that sending can last.
 */

interface QueuedMail {
  mailId: string
  kind: MailKind
  /** An e-mail in the form in which e-mails are stored. */
  recipient: string
  /** In the column `facts`. */
  data: MailData
  createdAt: Date
}

export async function insertMail(db: Executor, companyId: string, mail: QueuedMail): Promise<void> {
  await db
    .insertInto('mail_outbox')
    .values({
      company_id: companyId,
      mail_id: mail.mailId,
      kind: mail.kind,
      recipient: mail.recipient,
      facts: JSON.stringify(mail.data),
      created_at: mail.createdAt,
      next_attempt_at: mail.createdAt,
    })
    .execute()
}

/** A mail to be sent, with the number of the attempt for which it was taken. */
export interface DueMail extends QueuedMail {
  companyId: string
  attempts: number
}

/** Takes mails that are due, the longest due first, each until `leaseEndsAt`. */
export async function takeDueMailsAcrossCompanies(
  db: Executor,
  { now, leaseEndsAt, max }: { now: Date; leaseEndsAt: Date; max: number },
): Promise<DueMail[]> {
  const { rows } = await sql<DueMail>`
    with due as (
      select company_id, mail_id from mail_outbox
      where sent_at is null and failed_at is null and next_attempt_at <= ${now}
      order by next_attempt_at
      limit ${max}
      for update skip locked
    )
    update mail_outbox m set attempts = m.attempts + 1, next_attempt_at = ${leaseEndsAt}
    from due where m.company_id = due.company_id and m.mail_id = due.mail_id
    returning m.company_id as "companyId", m.mail_id as "mailId", m.kind, m.recipient, m.facts as data,
      m.created_at as "createdAt", m.attempts`.execute(db)
  return rows
}

/** How an attempt ended. */
type AttemptEnd =
  | { sentAt: Date }
  | { failedAt: Date; error: string }
  | { nextAttemptAt: Date; error: string }

/** Notes how an attempt ended; nothing if the mail was taken again meanwhile, since then that attempt decides. */
export async function settleMail(
  db: Executor,
  { companyId, mailId, attempts }: DueMail,
  end: AttemptEnd,
): Promise<void> {
  await db
    .updateTable('mail_outbox')
    .set(
      'sentAt' in end
        ? { sent_at: end.sentAt, last_error: null }
        : 'failedAt' in end
          ? { failed_at: end.failedAt, last_error: end.error }
          : { next_attempt_at: end.nextAttemptAt, last_error: end.error },
    )
    .where('company_id', '=', companyId)
    .where('mail_id', '=', mailId)
    .where('attempts', '=', attempts)
    .where('sent_at', 'is', null)
    .execute()
}

/** Deletes a mail that has no recipient any more. */
export async function deleteMail(db: Executor, companyId: string, mailId: string): Promise<void> {
  await db
    .deleteFrom('mail_outbox')
    .where('company_id', '=', companyId)
    .where('mail_id', '=', mailId)
    .execute()
}

/** How many mails wait, and since when the oldest of them does. */
export interface Backlog {
  waiting: number
  oldest: Date | null
}

export async function readBacklogAcrossCompanies(db: Executor): Promise<Backlog> {
  const { rows } = await sql<Backlog>`
    select count(*)::int as waiting, min(created_at) as oldest from mail_outbox
    where sent_at is null and failed_at is null`.execute(db)
  return rows[0] ?? { waiting: 0, oldest: null }
}
