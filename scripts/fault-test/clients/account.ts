import { setTimeout as sleep } from 'node:timers/promises'
import type { Proof } from '../checker/factor.ts'
import { expectMail, type Mailbox, seenIn, waitForMail } from './mailbox.ts'
import { type Actor, type Answered, type Ask, perform, performUntilKnown } from './perform.ts'
import type { Session } from './person.ts'

/** What somebody knows of an account of their own, and how they work in a session of it. */

export interface Account {
  companyId: string
  /** Its id in the history. */
  member: string
  /** Those that can be in force. A sign-in that works leaves one. */
  emails: string[]
  /** All that it has had. */
  hadEmails: Set<string>
  passwords: string[]
  app: App | null
  /** Recovery codes that were not accepted yet. */
  codes: string[]
  /** A code that was accepted, or replaced. */
  used: Proof | null
  /** Links to undo, those of earlier changes first. */
  undos: { email: string; token: string }[]
  session: Session | null
  /**
   * What a session began can have happened just now. A sign-in whose member changes meanwhile is refused as if its password were
   * wrong.
   */
  isUnsure: boolean
}

interface App {
  id: string
  secret: string
  /** Of the last code that was sent. */
  lastStep: number
}

/** By then, what a session has begun has happened, or does not happen. */
const SETTLED_MS = 2_000
const CODE = /\b(\d{4}) (\d{4})\n/

/** One request in its session, which is left unless it is known to be done: then nothing of it happens later. */
export async function act(actor: Actor, account: Account, ask: Omit<Ask, 'token'>): Promise<Answered> {
  const session = sessionOf(account)
  const answer = await perform(actor, {
    ...ask,
    token: session.accessToken,
    parts: (answer) => [{ kind: 'session', id: session.id, act: 'use' }, ...ask.parts(answer)],
  })
  if (answer.outcome !== 'ok') await leave(actor, account, answer.outcome === 'unknown')
  return answer
}

export function sessionOf({ session }: Account): Session {
  if (!session) throw new Error('nobody is signed in')
  return session
}

export async function leave(actor: Actor, account: Account, isUnsure: boolean): Promise<void> {
  const { id, accessToken: token } = sessionOf(account)
  account.session = null
  await performUntilKnown(actor, {
    what: 'POST /auth/logout',
    token,
    parts: () => [{ kind: 'session', id, act: 'end', isOwn: true }],
  })
  if (!isUnsure) return
  account.isUnsure = true
  await sleep(SETTLED_MS)
}

export function emailOf({ emails: [email = ''] }: Account): string {
  return email
}

/** The code that proves the mailbox; null if it did not come. */
export async function obtainMailCode(
  actor: Actor,
  mailbox: Mailbox,
  account: Account,
  use: 'factor' | 'email',
): Promise<string | null> {
  const email = emailOf(account)
  const before = seenIn(mailbox)
  const { outcome } = await act(actor, account, {
    what: 'POST /auth/second-factors/mail-code',
    json: { for: use },
    parts: () => [],
  })
  expectMail(mailbox, email, '', outcome)
  if (outcome !== 'ok') return null
  const mail = await waitForMail(actor, mailbox, email, '', before, ({ text }) => CODE.test(text))
  const [, first = '', last = ''] = CODE.exec(mail?.text ?? '') ?? []
  return mail && `${first}${last}`
}
