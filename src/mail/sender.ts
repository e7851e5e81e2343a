import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { Database } from '../database/schema.ts'
import { createLimiter, type Limiter } from '../limits/limiter.ts'
import { randomFraction, type System } from '../system.ts'
import { type Letter, renderLetter } from './render.ts'
import * as repository from './repository.ts'
import { MAX_CONNECTIONS, SendFailure, type Transport } from './transport.ts'

/**
 * Sends due mail. Any number of senders can run on one database: one of them takes a mail, and another one
 * can take it only after five minutes without a result. So a mail is sent once, unless an instance dies or
 * loses the database after the server has accepted the mail and before the result is stored.
 */

/** A query of an empty index costs Postgres about 30 µs, so new mail needs no signal. */
const POLL_MS = 250
const SEND_MS = 30_000
/** Longer than an attempt with all its statements, even if another instance's clock is a minute ahead. */
const LEASE_MS = 300_000
/** How long mail in progress can take when the service stops; less than the time of the whole shutdown. */
const STOP_MS = 5_000
const OUTAGE_PAUSE_MS = 5_000
/** Together with the sending, all tries and their pauses end before the lease does. */
const MAX_NOTE_TRIES = 4
const MAX_AGE_MS = 86_400_000
const FIRST_DELAY_MS = 4_000
const MAX_DELAY_MS = 3_600_000

/** A letter; `whenSent` runs after a mail server has accepted it. */
export interface ComposedLetter extends Letter {
  whenSent?(): Promise<void>
}

export interface SenderOptions {
  db: Kysely<Database>
  system: System
  transport: Transport
  /** Composes the letter with the data of this moment; null if the mail must not be sent. */
  compose(mail: repository.DueMail, now: number): Promise<ComposedLetter | null>
  /** Receives the end of each attempt, with context for the log. */
  note(end: 'sent' | 'postponed' | 'failed' | 'fault', context: Record<string, unknown>): void
}

interface Sending extends SenderOptions {
  slots: Limiter
  stopping: AbortController
}

interface Sender {
  start(): void
  /** Takes no more mail. Resolves when the mail in progress has ended, or after five seconds. */
  stop(): Promise<void>
}

export function createSender(options: SenderOptions): Sender {
  const slots = createLimiter({ concurrency: MAX_CONNECTIONS })
  const sending = { ...options, slots, stopping: new AbortController() }
  let running: Promise<void> | undefined
  let stopped: Promise<void> | undefined

  async function stop(): Promise<void> {
    sending.stopping.abort()
    await Promise.race([running, sleep(STOP_MS, undefined, { ref: false })])
    options.transport.close()
  }

  return {
    start() {
      running ??= run(sending)
    },
    stop() {
      stopped ??= stop()
      return stopped
    },
  }
}

async function run(sending: Sending): Promise<void> {
  const { slots, stopping } = sending
  while (!stopping.signal.aborted) {
    const room = slots.free
    const mails = await takeDue(sending, room)
    for (const mail of mails) void slots.run(() => deliver(sending, mail))
    // If all slots are in use, more mail can be due, so this waits for a slot and not for the next poll.
    if (slots.free === 0) await slots.ended('any')
    else if (mails.length < room) await pause(sending, POLL_MS)
  }
  await slots.ended('all')
}

async function pause({ stopping }: Sending, ms: number): Promise<void> {
  await sleep(ms, undefined, { signal: stopping.signal, ref: false }).catch(() => {})
}

async function takeDue(sending: Sending, max: number): Promise<repository.DueMail[]> {
  const { db, system, note } = sending
  const now = system.now()
  try {
    const lease = { now: new Date(now), leaseEndsAt: new Date(now + LEASE_MS) }
    return await repository.takeDueMailsAcrossCompanies(db, { ...lease, max })
  } catch (error) {
    note('fault', { err: error })
    await pause(sending, OUTAGE_PAUSE_MS)
    return []
  }
}

async function deliver(sending: Sending, mail: repository.DueMail): Promise<void> {
  const { db, system, transport, compose, note } = sending
  const { mailId, kind, companyId, attempts: attempt, recipient: to } = mail
  const about = { mailId, mail: kind, companyId, attempt }
  let wasSent = false
  try {
    const now = system.now()
    const letter = await compose(mail, now)
    if (!letter) return await repository.deleteMail(db, companyId, mailId)
    const message = { ...renderLetter(letter), id: mailId, kind, to, at: new Date(now) }
    const { file } = await transport.send(message, AbortSignal.timeout(SEND_MS))
    wasSent = true
    await letter.whenSent?.().catch((error) => note('fault', { ...about, err: error }))
    await noteSent(sending, mail)
    note('sent', { ...about, ...(file !== undefined && { file }) })
  } catch (error) {
    // The mail was sent, but the database does not know: after the lease it is sent again.
    if (wasSent) return note('fault', { ...about, err: error })
    const reason = error instanceof SendFailure ? { reason: error.message } : { err: error }
    const ended = postpone(sending, mail, error).catch((fault) => ({ end: 'fault', err: fault }) as const)
    const { end, ...context } = await ended
    note(end, { ...about, ...reason, ...context })
  }
}

/** Retries during a short outage of the database, because a mail that is not marked as sent is sent again. */
async function noteSent(sending: Sending, mail: repository.DueMail): Promise<void> {
  const { db, system, stopping } = sending
  for (let triesLeft = MAX_NOTE_TRIES - 1; ; triesLeft -= 1) {
    try {
      return await repository.settleMail(db, mail, { sentAt: new Date(system.now()) })
    } catch (error) {
      if (triesLeft === 0 || stopping.signal.aborted) throw error
      await pause(sending, OUTAGE_PAUSE_MS)
    }
  }
}

/** Stores that an attempt did not succeed: the mail is tried again later, or it has failed. */
async function postpone({ db, system }: Sending, mail: repository.DueMail, cause: unknown) {
  const now = system.now()
  const error = cause instanceof SendFailure ? cause.message : 'internal'
  const isForGood = cause instanceof SendFailure && cause.isForGood
  if (isForGood || now - mail.createdAt.getTime() >= MAX_AGE_MS) {
    await repository.settleMail(db, mail, { failedAt: new Date(now), error })
    return { end: 'failed' } as const
  }
  const nextAttemptAt = new Date(now + delayAfter(mail.attempts, system))
  await repository.settleMail(db, mail, { nextAttemptAt, error })
  return { end: 'postponed', nextAttemptAt } as const
}

/** Milliseconds: doubled each time, minus a random part of up to half, to spread simultaneous failures. */
function delayAfter(attempts: number, system: System): number {
  const longest = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempts - 1))
  return longest * (1 - randomFraction(system) / 2)
}
