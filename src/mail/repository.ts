import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { LINKED_LETTERS, MAIL_KINDS, type MailKind } from './letters.ts'
import type { MailData } from './notices.ts'

/** The outbox: an email is inserted in the transaction of its cause, and sent under a lease after the commit. */

const UNDO_KINDS = Object.entries(LINKED_LETTERS).flatMap(([kind, { purpose }]) =>
  purpose === 'undo' ? [kind] : [],
)

interface QueuedMail {
  mailId: string
  kind: MailKind
  recipient: string
  data: MailData
  network: string | null // of the request, if strangers can cause such email
  createdAt: Date
}

export async function insertMail(
  db: Executor,
  companyId: string,
  mail: QueuedMail & { widerNetwork: string | null },
): Promise<void> {
  await db
    .insertInto('mail_outbox')
    .values({
      company_id: companyId,
      mail_id: mail.mailId,
      kind: mail.kind,
      recipient: mail.recipient,
      facts: JSON.stringify(mail.data),
      network: mail.network,
      wider_network: mail.widerNetwork,
      created_at: mail.createdAt,
      next_attempt_at: mail.createdAt,
    })
    .execute()
}

/** `attempts` includes the current one. */
export interface DueMail extends QueuedMail {
  companyId: string
  attempts: number
  isCounted: boolean
}

/** Leases use the database's clock, because instances' clocks differ. Newer releases send their own new kinds. */
export async function takeDueMailsAcrossCompanies(
  db: Executor,
  { now, leaseMs, max }: { now: Date; leaseMs: number; max: number },
): Promise<DueMail[]> {
  const { rows } = await sql<DueMail>`
    with due as (
      select company_id, mail_id from mail_outbox
      where sent_at is null and failed_at is null and next_attempt_at <= ${now} and kind = any(${MAIL_KINDS})
        and coalesce(leased_until <= clock_timestamp(), true)
      order by next_attempt_at, turn, mail_id
      limit ${max}
      for update skip locked
    )
    update mail_outbox m set attempts = m.attempts + 1, next_attempt_at = ${new Date(now.getTime() + leaseMs)},
      leased_until = clock_timestamp() + ${leaseMs} * interval '1 millisecond'
    from due where m.company_id = due.company_id and m.mail_id = due.mail_id
    returning m.company_id as "companyId", m.mail_id as "mailId", m.kind, m.recipient, m.facts as data, m.network,
      m.created_at as "createdAt", m.attempts, m.counted_at is not null as "isCounted"`.execute(db)
  return rows
}

type AttemptEnd =
  | { sentAt: Date }
  | { failedAt: Date; error: string }
  | { nextAttemptAt: Date; error: string }
  /** There was no attempt: the email waits for its round, or its sender stops. */
  | { handedBackUntil: Date; error: string | null }

/** Does nothing if the email was taken again: the later attempt decides. */
export async function settleMail(db: Executor, { companyId, mailId, attempts }: DueMail, end: AttemptEnd) {
  await db
    .updateTable('mail_outbox')
    .set({ ...columnsOf(end), leased_until: null })
    .where('company_id', '=', companyId)
    .where('mail_id', '=', mailId)
    .where('attempts', '=', attempts)
    .where('sent_at', 'is', null)
    .execute()

  function columnsOf(end: AttemptEnd) {
    if ('sentAt' in end) return { sent_at: end.sentAt, last_error: null }
    if ('failedAt' in end) return { failed_at: end.failedAt, last_error: end.error }
    if ('nextAttemptAt' in end) return { next_attempt_at: end.nextAttemptAt, last_error: end.error }
    return { attempts: attempts - 1, next_attempt_at: end.handedBackUntil, last_error: end.error }
  }
}

export async function deleteMail(db: Executor, companyId: string, mailId: string): Promise<void> {
  await db
    .deleteFrom('mail_outbox')
    .where('company_id', '=', companyId)
    .where('mail_id', '=', mailId)
    .execute()
}

/** Leaves out emails that wait for their round: strangers can cause many, and that is not a fault. */
export async function readBacklogAcrossCompanies(db: Executor) {
  return await db
    .selectFrom('mail_outbox')
    .select(({ cast, fn }) => [
      cast<number>(fn.countAll(), 'integer').as('waiting'),
      fn.min<Date | null>('created_at').as('oldest'),
    ])
    .where('sent_at', 'is', null)
    .where('failed_at', 'is', null)
    .where((eb) => eb.or([eb('turn', 'is', null), eb('counted_at', 'is not', null)]))
    .executeTakeFirstOrThrow()
}

/** The email may have been a different member's. Emails about that member name them. */
export const isMailOf = ({ userId, email }: { userId: string; email: string }) =>
  sql`coalesce(facts ->> 'userId' = ${userId}, recipient = ${email})`

/** Call it first in a transaction, so that no token appears, and `deleteNoticesTo` once the user is locked. */
export async function deleteMailsTo(
  db: Executor,
  companyId: string,
  recipient: { userId: string; email: string },
): Promise<void> {
  await deleteMailsWhere(db, companyId, isMailOf(recipient))
}

export async function deleteInvitationMails(db: Executor, companyId: string, recipient: string) {
  await deleteMailsWhere(db, companyId, sql`recipient = ${recipient} and kind = 'invitation'`)
}

export async function deleteEmailChangeMails(db: Executor, companyId: string, userId: string) {
  await deleteMailsWhere(db, companyId, sql`kind = 'email_change' and facts ->> 'userId' = ${userId}`)
}

/** Of this request and later ones. Some may have reached a mail server that did not confirm it. */
export async function deleteUnsentUndos(
  db: Executor,
  companyId: string,
  { userId, requestNumber }: { userId: string; requestNumber: string },
): Promise<void> {
  const isUnsent = sql`sent_at is null and failed_at is null and request_number >= ${requestNumber}`
  const isUndo = sql`facts ->> 'userId' = ${userId} and kind = any(${UNDO_KINDS})`
  await deleteMailsWhere(db, companyId, sql`${isUndo} and ${isUnsent}`)
}

/** Locks in the same order as all requests. */
async function deleteMailsWhere(db: Executor, companyId: string, condition: RawBuilder<unknown>) {
  await sql`
    with locked as (
      select mail_id from mail_outbox where company_id = ${companyId} and ${condition}
      order by mail_id for update
    )
    delete from mail_outbox m using locked l where m.company_id = ${companyId} and m.mail_id = l.mail_id`.execute(
    db,
  )
}

/** Only emails that no waiting transaction locks: without a link, or about a change of email or factor. */
export async function deleteNoticesTo(
  db: Executor,
  companyId: string,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  const isUnlocked = sql`(facts ->> 'userId' is not null or kind <> all(${Object.keys(LINKED_LETTERS)}))`
  await sql`
    delete from mail_outbox
    where company_id = ${companyId} and ${isMailOf({ userId, email })} and ${isUnlocked}`.execute(db)
}

type MailExpressions = { kind: RawBuilder<MailKind> } & Record<
  'companyId' | 'mailId' | 'recipient' | 'data' | 'createdAt',
  RawBuilder<unknown>
>

/** Queues emails in the statement that causes them, so that both are committed together. */
export function mailEach(source: RawBuilder<unknown>, mail: MailExpressions) {
  return sql`
    insert into mail_outbox (company_id, mail_id, kind, recipient, facts, created_at, next_attempt_at)
    select ${mail.companyId}, ${mail.mailId}, ${mail.kind}, ${mail.recipient}, ${mail.data}, ${mail.createdAt},
      ${mail.createdAt}
    from ${source}`
}

/** Returns no row if the email was sent, has failed, or was deleted. */
export function lockUnsent(companyId: string, mailId: string) {
  return sql`
    select request_number from mail_outbox
    where company_id = ${companyId} and mail_id = ${mailId} and sent_at is null and failed_at is null
    for share`
}

/** `accounts` selects `company_id` and `email`. The links of these emails never work: see `lockUnsent`. */
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
