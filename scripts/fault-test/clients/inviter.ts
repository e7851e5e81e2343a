import { setTimeout as sleep } from 'node:timers/promises'
import type { Credentials } from '../../kit/operations.ts'
import type { Mail } from '../target/site.ts'
import { type Actor, atAll, note, pause, perform, performUntilKnown } from './perform.ts'
import { type Session, signIn } from './person.ts'

/** An admin who invites people, and people who accept, each on all instances at the same time. Some are withdrawn first. */

const PAUSE_MS = 500
/** Of email that waits for a fault to end. */
const PATIENCE_MS = 30_000
const LOOK_MS = 100

export async function liveInviter(actor: Actor, admin: Credentials, mails: readonly Mail[]): Promise<void> {
  let session: Session | null = null
  while (!actor.ending.aborted) {
    await pause(actor, PAUSE_MS)
    session ??= await signIn(actor, admin)
    if (session) await invite(actor, session, admin.companyId, mails)
  }
}

async function invite(
  actor: Actor,
  { accessToken: token }: Session,
  companyId: string,
  mails: readonly Mail[],
): Promise<void> {
  const { random } = actor
  const email = `${random.word(12)}@invited.example`
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/invitations',
    token,
    json: { email, role: 'viewer' },
    asked: email,
    answeredOf: (reply) => reply.email,
    parts: () => [],
  })
  const id = await waitForToken(actor, mails, email)
  if (id === null) return
  if (outcome === 'ok' && random.isOneIn(3)) {
    await performUntilKnown(actor, {
      what: `DELETE /auth/invitations/${reply.id}`,
      token,
      parts: () => [{ kind: 'token', id, act: 'revoke' }],
    })
  }
  await perform(actor, {
    what: 'POST /auth/invitations/preview',
    json: { token: id },
    asked: email,
    answeredOf: (reply) => reply.email,
    parts: () => [{ kind: 'token', id, act: 'preview' }],
  })
  await atAll(actor, (at) =>
    performUntilKnown(actor, {
      what: 'POST /auth/invitations/accept',
      json: { token: id, name: 'Bob', password: `an invited one ${random.word(12)}` },
      at,
      asked: companyId,
      answeredOf: (reply) => reply.companyId,
      parts: () => [{ kind: 'token', id, act: 'consume' }],
    }),
  )
}

/** Null if no email comes in time. */
async function waitForToken(
  { ending }: Actor,
  mails: readonly Mail[],
  email: string,
): Promise<string | null> {
  const deadline = performance.now() + PATIENCE_MS
  while (!ending.aborted && performance.now() < deadline) {
    const found = mails.find(({ recipient }) => recipient === email)
    if (found) return found.token
    await sleep(LOOK_MS)
  }
  return null
}

/** An email that comes again has a new link, which revokes the previous one. */
export function noteRepeatedMails(actor: Actor, mails: readonly Mail[]): void {
  for (const copies of Map.groupBy(mails, ({ id }) => id).values())
    for (const { token, at } of copies.slice(0, -1))
      note(actor, 'an email again', { kind: 'token', id: token, act: 'revoke' }, at)
}
