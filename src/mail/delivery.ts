import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { Limit } from '../config/limits.ts'
import type { Database } from '../database/schema.ts'
import { randomFraction, type System } from '../system.ts'
import { type Letter, renderLetter } from './letters.ts'
import { type DueMail, deleteMail, settleMail } from './repository.ts'
import { countMail, type Decision, refundMail, WAITED, wakeNextAcrossCompanies } from './share-repository.ts'
import { SendFailure, type Transport } from './transport.ts'

/** Retries, and waiting for a round, end after a day. */
const MAX_AGE_MS = 86_400_000
const FIRST_DELAY_MS = 4_000
const MAX_DELAY_MS = 3_600_000
/** Lets emails of earlier rounds go first. */
const ROUND_DELAY_MS = 5_000
const NOTE_PAUSE_MS = 1_000

interface ComposedLetter extends Letter {
  /** Runs after a mail server accepts the letter, and again if it fails. */
  whenSent?(): Promise<void>
}

export interface DeliveryOptions {
  db: Kysely<Database>
  system: System
  transport: Transport
  /** Bounds emails to one recipient that strangers can cause. */
  limit: Limit
  /** Null if the email has no recipient and must not be sent. */
  compose(mail: DueMail, now: number): Promise<(() => Promise<ComposedLetter | null>) | null>
  note(end: 'sent' | 'waiting' | 'postponed' | 'failed' | 'fault', context: Record<string, unknown>): void
}

export interface Delivery extends DeliveryOptions {
  /** Nothing more is sent. */
  stopping: AbortSignal
  /** Sending in progress is aborted. */
  stopped: AbortSignal
}

/** For the mail server's reply, and for storing it. Both end before the email's lease. */
interface Deadlines {
  answered: AbortSignal
  noted: AbortSignal
}

/** One attempt. Never throws. */
export async function deliver(delivery: Delivery, mail: DueMail, deadlines: Deadlines): Promise<void> {
  const { db, system, transport, limit, stopping, stopped, note } = delivery
  const { mailId, kind, companyId, recipient, attempts: attempt } = mail
  const about = { mailId, mail: kind, companyId, attempt }
  let wasSent = false
  try {
    const now = system.now()
    const write = await delivery.compose(mail, now)
    if (write && !(await isNext(delivery, mail, now))) return
    const letter = write && (await write())
    if (!letter) {
      if (write && isLimited(mail)) await refundMail(db, recipient, { limit, now: new Date(now) })
      return await deleteMail(db, companyId, mailId)
    }
    stopping.throwIfAborted()
    const message = { ...renderLetter(letter), id: mailId, kind, to: recipient, at: new Date(system.now()) }
    const { file } = await transport.send(message, AbortSignal.any([deadlines.answered, stopped]))
    wasSent = true
    await noteSent(delivery, mail, letter, deadlines.noted)
    note('sent', { ...about, file })
  } catch (error) {
    // It was sent, but that is not stored, so it is sent again after the lease.
    if (wasSent) return note('fault', { ...about, err: error })
    const reason = reasonOf(delivery, error)
    const ended = postpone(delivery, mail, error).catch((fault) => ({ end: 'fault', err: fault }) as const)
    const { end, ...context } = await ended
    note(end, { ...about, ...reason, ...context })
  }
}

function isLimited({ network, isCounted }: DueMail): boolean {
  return network !== null && !isCounted
}

async function isNext({ db, limit, note }: Delivery, mail: DueMail, ms: number): Promise<boolean> {
  if (!isLimited(mail)) return true
  const now = new Date(ms)
  const decision = await db.transaction().execute((tx) => countMail(tx, mail, { limit, now }))
  if (decision?.isCounted) return true
  // The email is gone: its link was invalidated, or a different sender has it.
  if (!decision) return false
  const isExpired = ms - mail.createdAt.getTime() >= MAX_AGE_MS
  const end = isExpired ? { failedAt: now } : { handedBackUntil: dueAfter(decision, limit, ms) }
  // The limit has room, but earlier emails go first, so they must become due.
  if (!decision.freeAt) await wakeNextAcrossCompanies(db, mail.recipient, { limit, now })
  await settleMail(db, mail, { ...end, error: WAITED })
  const { mailId, kind, companyId } = mail
  note(isExpired ? 'failed' : 'waiting', { mailId, mail: kind, companyId, reason: WAITED })
  return false
}

/** An estimate: if other emails go first, it waits again. */
function dueAfter({ freeAt, earlier }: Decision, { max, windowSeconds }: Limit, now: number): Date {
  if (!freeAt) return new Date(now + ROUND_DELAY_MS)
  return new Date(freeAt.getTime() + Math.floor(earlier / max) * windowSeconds * 1000)
}

/** Retries during a database outage, because an email that is not marked as sent is sent again. */
async function noteSent(
  { db, system, stopping }: Delivery,
  mail: DueMail,
  letter: ComposedLetter,
  deadline: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      await letter.whenSent?.()
      return await settleMail(db, mail, { sentAt: new Date(system.now()) })
    } catch (error) {
      if (deadline.aborted || stopping.aborted) throw error
      await sleep(NOTE_PAUSE_MS, undefined, { signal: stopping, ref: false }).catch(() => {})
    }
  }
}

function reasonOf({ stopping }: Delivery, error: unknown) {
  if (stopping.aborted) return { reason: 'the service stops' }
  return error instanceof SendFailure ? { reason: error.message } : { err: error }
}

async function postpone({ db, system, stopping }: Delivery, mail: DueMail, cause: unknown) {
  const now = system.now()
  const error = cause instanceof SendFailure ? cause.message : 'internal'
  if (stopping.aborted) {
    // The attempt does not count. A different sender can take the email immediately.
    await settleMail(db, mail, { handedBackUntil: new Date(now), error: null })
    return { end: 'waiting' } as const
  }
  if (now - mail.createdAt.getTime() >= MAX_AGE_MS) {
    await settleMail(db, mail, { failedAt: new Date(now), error })
    return { end: 'failed' } as const
  }
  const nextAttemptAt = new Date(now + delayAfter(mail.attempts, system))
  await settleMail(db, mail, { nextAttemptAt, error })
  return { end: 'postponed', nextAttemptAt } as const
}

/** Milliseconds, doubled each time, minus a random part of up to half to spread retries. */
function delayAfter(attempts: number, system: System): number {
  const longest = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempts - 1))
  return longest * (1 - randomFraction(system) / 2)
}
