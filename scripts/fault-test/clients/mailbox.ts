import { setTimeout as sleep } from 'node:timers/promises'
import type { MailRequest } from '../checker/mail.ts'
import type { Outcome } from '../checker/seen.ts'
import type { Mail } from '../target/site.ts'
import { type Actor, note } from './perform.ts'

/** The mail that people get, and what they know of mail that must come. */

export interface Mailbox {
  mails: readonly Mail[]
  /** What was asked for, by recipient and purpose. */
  requests: Expected[]
}

/** `isSure`: nothing that follows takes it back. */
interface Expected extends MailRequest {
  isSure?: boolean
}

/** Of its link; empty without one. */
export type Purpose = 'invite' | 'reset' | 'confirm' | 'undo' | ''

/** Of mail that waits for a fault to end. */
const PATIENCE_MS = 30_000
const LOOK_MS = 100

const purposeOf = ({ token }: Mail) => token.split('_')[0] ?? ''

export function expectMail(
  { requests }: Mailbox,
  email: string,
  purpose: Purpose,
  outcome: Outcome,
  isSure = false,
): void {
  requests.push({ recipient: `${email} ${purpose}`, outcome, isSure })
}

/** Ids of mails: all until now. */
export const seenIn = ({ mails }: Mailbox): ReadonlySet<string> => new Set(mails.map(({ id }) => id))

/** The first mail that was not seen before; null if it does not come in time. */
export async function waitForMail(
  { ending }: Actor,
  { mails }: Mailbox,
  email: string,
  purpose: Purpose,
  before: ReadonlySet<string>,
  isMeant: (mail: Mail) => boolean = () => true,
): Promise<Mail | null> {
  const deadline = performance.now() + PATIENCE_MS
  while (!ending.aborted && performance.now() < deadline) {
    const found = mails.find(
      (mail) =>
        mail.recipient === email && purposeOf(mail) === purpose && !before.has(mail.id) && isMeant(mail),
    )
    if (found) return found
    await sleep(LOOK_MS)
  }
  return null
}

/** What waits can be taken back by what follows. Returns how many wait. */
export function doubtMail({ mails, requests }: Mailbox, email: string, purpose: Purpose): number {
  const recipient = `${email} ${purpose}`
  const asked = requests.filter((one) => one.recipient === recipient && one.outcome !== 'refused')
  const came = new Set(
    mails.flatMap((mail) => (mail.recipient === email && purposeOf(mail) === purpose ? mail.id : [])),
  )
  const waiting = Math.max(0, asked.length - came.size)
  const open = asked.filter(({ isSure }) => !isSure)
  for (const one of open.slice(Math.max(0, open.length - waiting))) one.outcome = 'unknown'
  return waiting
}

/** Whether a mail of the same kind as this one came too, or waits. Then it waits in doubt. */
export function hasRivals(
  mailbox: Mailbox,
  { id, recipient }: Mail,
  purpose: Purpose,
  before: ReadonlySet<string>,
): boolean {
  const isRival = (one: Mail) =>
    one.recipient === recipient && purposeOf(one) === purpose && one.id !== id && !before.has(one.id)
  return doubtMail(mailbox, recipient, purpose) > 0 || mailbox.mails.some(isRival)
}

/** A link whose mail is still to come makes this one void when it comes, and may never come. */
export function doubtToken(actor: Actor, token: string): void {
  note(actor, 'a later mail', { kind: 'token', id: token, act: 'void' }, 'unknown')
}

/** A mail that comes again has another link, which makes the one before void. */
export function noteRepeatedMails({ notes, name }: Actor, mails: readonly Mail[]): void {
  for (const copies of Map.groupBy(mails, ({ id }) => id).values())
    for (const { token, at } of copies.slice(0, -1))
      notes.history.push({
        ...{
          client: name,
          what: 'a mail again',
          begin: at,
          end: Number.POSITIVE_INFINITY,
          outcome: 'unknown',
          code: '',
          status: 0,
        },
        parts: [{ kind: 'token', id: token, act: 'void' }],
      })
}
