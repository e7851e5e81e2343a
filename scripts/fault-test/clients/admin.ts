import { setTimeout as sleep } from 'node:timers/promises'
import type { Credentials } from '../../kit/operations.ts'
import type { Mail } from '../target/site.ts'
import { type Actor, atAll, note, perform, performUntilKnown, repeat, type Session } from './perform.ts'
import { signIn } from './person.ts'
import type { Secrets } from './sender.ts'

/** One admin replaces the signing secret. Another invites people, who accept on all instances at the same time. */

const PATIENCE_MS = 30_000
const LOOK_MS = 100

export async function liveAdmin(actor: Actor, admin: Credentials, secrets: Secrets): Promise<void> {
  let session: Session | null = null
  await repeat(actor, async () => {
    session ??= await signIn(actor, admin)
    if (session) await regenerate(actor, session, secrets)
  })
}

/** Sometimes expects the version that this client saw last, so that two requests can expect the same one. */
async function regenerate(
  actor: Actor,
  { accessToken: token }: Session,
  { companyId: id, shown }: Secrets,
): Promise<void> {
  const expected = actor.random.isOneIn(2) ? null : shown.length
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/webhook-secret/regenerate',
    token,
    ...(expected !== null && { json: { expectedVersion: expected } }),
    parts: ({ reply: { version = null, secret = null } }) => [
      { kind: 'secret', id, act: 'regenerate', expected, version, secret },
    ],
  })
  if (outcome !== 'ok' || !reply.secret || !reply.version) return
  // Lost responses leave gaps.
  while (shown.length < reply.version - 1) shown.push(shown.at(-1) ?? reply.secret)
  shown[reply.version - 1] = reply.secret
}

export async function liveInviter(actor: Actor, admin: Credentials, mails: readonly Mail[]): Promise<void> {
  let session: Session | null = null
  await repeat(actor, async () => {
    session ??= await signIn(actor, admin)
    if (session) await invite(actor, session, mails)
  })
}

async function invite(actor: Actor, { accessToken: token }: Session, mails: readonly Mail[]): Promise<void> {
  const { random } = actor
  const email = `${random.word(12)}@invited.example`
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/invitations',
    token,
    json: { email, role: 'viewer' },
    isAnswer: (reply) => reply.email === email,
    parts: () => [],
  })
  const id = await waitForToken(actor, mails, email)
  if (id === undefined) return
  if (outcome === 'ok' && random.isOneIn(3)) {
    await performUntilKnown(actor, {
      what: `DELETE /auth/invitations/${reply.id}`,
      token,
      parts: () => [{ kind: 'token', id, act: 'revoke' }],
    })
  }
  await atAll(actor, (at) =>
    performUntilKnown(actor, {
      what: 'POST /auth/invitations/accept',
      json: { token: id, name: 'Bob', password: `an invited one ${random.word(12)}` },
      at,
      parts: () => [{ kind: 'token', id, act: 'consume' }],
    }),
  )
}

async function waitForToken({ ending }: Actor, mails: readonly Mail[], email: string) {
  const deadline = performance.now() + PATIENCE_MS
  for (;;) {
    const found = mails.find(({ recipient }) => recipient === email)
    if (found || ending.aborted || performance.now() > deadline) return found?.token
    await sleep(LOOK_MS)
  }
}

/** A repeated email has a new link, which revokes the previous one. */
export function noteRepeatedMails(actor: Actor, mails: readonly Mail[]): void {
  const seen = { end: Number.POSITIVE_INFINITY, outcome: 'unknown' } as const
  for (const copies of Map.groupBy(mails, ({ id }) => id).values())
    for (const { token: id, at: begin } of copies.slice(0, -1))
      note(actor, 'an email again', { kind: 'token', id, act: 'revoke' }, { begin, ...seen })
}
