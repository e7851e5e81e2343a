import { setTimeout as sleep } from 'node:timers/promises'
import type { Mail } from '../target/site.ts'
import { type Actor, note } from './perform.ts'

/** The email that people get. */

/** Of its link. */
export type Purpose = 'invite' | 'reset'

/** Of email that waits for a fault to end. */
const PATIENCE_MS = 30_000
const LOOK_MS = 100

/** The token of the next email for a purpose, after those that were there before; null if it does not come in time. */
export async function waitForLink(
  { ending }: Actor,
  mails: readonly Mail[],
  email: string,
  purpose: Purpose,
  before = 0,
): Promise<string | null> {
  const deadline = performance.now() + PATIENCE_MS
  while (!ending.aborted && performance.now() < deadline) {
    const isMeant = ({ recipient, token }: Mail) => recipient === email && token.startsWith(`${purpose}_`)
    const found = mails.slice(before).find(isMeant)
    if (found) return found.token
    await sleep(LOOK_MS)
  }
  return null
}

/** A link whose email is still to come revokes this one when it comes, and may never come. */
export function doubtToken(actor: Actor, token: string): void {
  note(actor, 'a later email', { kind: 'token', id: token, act: 'void' }, 'unknown')
}

/** An email that comes again has a different link, which revokes the previous one. */
export function noteRepeatedMails({ notes, name }: Actor, mails: readonly Mail[]): void {
  for (const copies of Map.groupBy(mails, ({ id }) => id).values())
    for (const { token, at } of copies.slice(0, -1))
      notes.history.push({
        ...{ client: name, what: 'an email again', begin: at, end: Number.POSITIVE_INFINITY },
        ...{ outcome: 'unknown', code: '', status: 0, parts: [{ kind: 'token', id: token, act: 'void' }] },
      })
}
