import { setTimeout as sleep } from 'node:timers/promises'
import type { Kysely } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database, MailFacts, MailKind } from '../database/schema.ts'
import { newId, type System } from '../system.ts'
import { type Letter, renderLetter } from './letter.ts'
import * as repository from './repository.ts'
import { MAX_CONNECTIONS, SendFailure, type Transport } from './transport.ts'

/** Mail: whoever has something to tell queues it in their own transaction; a sender on each instance does the rest. */

export type { Letter } from './letter.ts'
export type { DueMail } from './repository.ts'

/** Queues a mail; it leaves once the transaction has committed. */
export async function queueMail(
  db: Executor,
  system: System,
  companyId: string,
  mail: { kind: MailKind; recipient: string; facts: MailFacts; now: number },
): Promise<void> {
  const { kind, recipient, facts, now } = mail
  const createdAt = new Date(now)
  await repository.insertMail(db, companyId, { mailId: newId(system), kind, recipient, facts, createdAt })
}

/** Asking an empty index costs Postgres some 30 µs, so nobody needs to be told that there is mail. */
const POLL_MS = 250
const SEND_MS = 30_000
/** Longer than all that follows may last, even where another instance's clock is a minute ahead. */
const LEASE_MS = 300_000
/** What is under way when an instance is stopped has this long, within the time of a whole shutdown. */
const STOP_MS = 5_000
const OUTAGE_PAUSE_MS = 5_000
/** With the time of sending and of each statement they end before the lease does. */
const MAX_NOTE_TRIES = 4
const GIVE_UP_AFTER_MS = 86_400_000
const FIRST_DELAY_MS = 4_000
const MAX_DELAY_MS = 3_600_000

interface SenderOptions {
  db: Kysely<Database>
  system: System
  transport: Transport
  /** The letter that a mail is to be at this moment; null if there is nobody to send it to any more. */
  compose(mail: repository.DueMail, now: number): Promise<Letter | null>
  /** Told how each attempt ended, with facts for the log. */
  note(end: 'sent' | 'postponed' | 'given up' | 'fault', facts: Record<string, unknown>): void
}

/**
 * Sends what is due, as long as it runs. Any number may run on one database: each mail is taken by one of
 * them, and by another only if that one has not said within five minutes what became of it. So it is sent
 * once, unless an instance dies, or loses the database, between the server's acceptance and its note of that.
 */
export function createSender({ db, system, transport, compose, note }: SenderOptions) {
  const stopping = new AbortController()
  const underWay = new Set<Promise<void>>()
  let running: Promise<void> | undefined
  let stopped: Promise<void> | undefined

  async function run(): Promise<void> {
    while (!stopping.signal.aborted) {
      const room = MAX_CONNECTIONS - underWay.size
      const mails = await takeDue(room)
      for (const mail of mails) {
        const work = deliver(mail).finally(() => underWay.delete(work))
        underWay.add(work)
      }
      if (underWay.size === MAX_CONNECTIONS) await Promise.race(underWay)
      // Where all the room was taken there may be more.
      else if (mails.length < room) await pause(POLL_MS)
    }
    await Promise.all(underWay)
  }

  async function pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: stopping.signal, ref: false }).catch(() => {})
  }

  async function takeDue(max: number): Promise<repository.DueMail[]> {
    const now = system.now()
    try {
      const leaseEndsAt = new Date(now + LEASE_MS)
      return await repository.takeDueMailsAcrossCompanies(db, { now: new Date(now), leaseEndsAt, max })
    } catch (error) {
      note('fault', { err: error })
      await pause(OUTAGE_PAUSE_MS)
      return []
    }
  }

  async function deliver(mail: repository.DueMail): Promise<void> {
    const about = {
      mailId: mail.mail_id,
      mail: mail.kind,
      companyId: mail.company_id,
      attempt: mail.attempts,
    }
    let wasSent = false
    try {
      const now = system.now()
      const letter = await compose(mail, now)
      if (!letter) return await repository.deleteMail(db, mail)
      const message = {
        ...renderLetter(letter),
        id: mail.mail_id,
        kind: mail.kind,
        to: mail.recipient,
        at: new Date(now),
      }
      const { file } = await transport.send(message, AbortSignal.timeout(SEND_MS))
      wasSent = true
      await letter.whenSent?.().catch((error) => note('fault', { ...about, err: error }))
      await noteSent(mail)
      note('sent', { ...about, ...(file !== undefined && { file }) })
    } catch (error) {
      // Only the note of it is missing: whoever takes it next has to send it again.
      if (wasSent) return note('fault', { ...about, err: error })
      const reason = error instanceof SendFailure ? { reason: error.message } : { err: error }
      const ended = await postpone(mail, error).catch((fault) => ({ end: 'fault', err: fault }) as const)
      const { end, ...facts } = ended
      note(end, { ...about, ...reason, ...facts })
    }
  }

  /** What is not noted goes out again, so a database that is away for a moment is asked again. */
  async function noteSent(mail: repository.DueMail): Promise<void> {
    for (let triesLeft = MAX_NOTE_TRIES - 1; ; triesLeft -= 1) {
      try {
        return await repository.settleMail(db, mail, { sentAt: new Date(system.now()) })
      } catch (error) {
        if (triesLeft === 0 || stopping.signal.aborted) throw error
        await pause(OUTAGE_PAUSE_MS)
      }
    }
  }

  async function postpone(mail: repository.DueMail, error: unknown) {
    const now = system.now()
    const text = error instanceof SendFailure ? error.message : 'internal'
    const isForGood = error instanceof SendFailure && error.isForGood
    if (isForGood || now - mail.created_at.getTime() >= GIVE_UP_AFTER_MS) {
      await repository.settleMail(db, mail, { failedAt: new Date(now), error: text })
      return { end: 'given up' } as const
    }
    const nextAttemptAt = new Date(now + delayAfter(mail.attempts))
    await repository.settleMail(db, mail, { nextAttemptAt, error: text })
    return { end: 'postponed', nextAttemptAt } as const
  }

  /** Twice as long each time, less up to a half, so that what failed together does not come back together. */
  function delayAfter(attempts: number): number {
    const longest = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (attempts - 1))
    const chance = system.randomBytes(2).readUInt16BE() / 65_536
    return longest * (1 - chance / 2)
  }

  return {
    start(): void {
      running ??= run()
    },
    /** Takes nothing more, and resolves when what is under way has ended, or has had its time. */
    stop(): Promise<void> {
      stopped ??= stop()
      return stopped
    },
  }

  async function stop(): Promise<void> {
    stopping.abort()
    await Promise.race([running, sleep(STOP_MS, undefined, { ref: false })])
    transport.close()
  }
}
