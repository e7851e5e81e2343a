import type { Credentials } from '../../kit/operations.ts'
import type { Mail } from '../target/site.ts'
import { doubtToken, waitForLink } from './mailbox.ts'
import { type Actor, atAll, pause, perform, performUntilKnown } from './perform.ts'
import { memberOf, refresh, type Session, signIn } from './person.ts'

/** What goes by mail: invitations that are accepted or withdrawn, and passwords that are reset, each at all instances at once. */

interface MailWorld {
  mails: readonly Mail[]
  admin: Credentials
  /** A member whom nobody else signs in. */
  forgetful: Credentials
}

const PAUSE_MS = 500

export async function liveByMail(actor: Actor, world: MailWorld): Promise<void> {
  const { random, ending } = actor
  let session: Session | null = null
  let { forgetful } = world
  while (!ending.aborted) {
    await pause(actor, PAUSE_MS)
    session ??= await signIn(actor, world.admin)
    if (!session) continue
    const choice = random.below(5)
    if (choice < 3) await inviteSomebody(actor, session, world)
    else if (choice < 4) forgetful = await resetPassword(actor, world, forgetful)
    else session = await refresh(actor, session, random.word(16))
  }
}

async function inviteSomebody(
  actor: Actor,
  { accessToken: token }: Session,
  world: MailWorld,
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
  const link = await waitForLink(actor, world.mails, email, 'invite')
  if (link === null) return
  if (outcome === 'ok' && random.isOneIn(3)) {
    await performUntilKnown(actor, {
      what: `DELETE /auth/invitations/${reply.id}`,
      token,
      parts: () => [{ kind: 'token', id: link, act: 'void' }],
    })
  }
  await perform(actor, {
    what: 'POST /auth/invitations/preview',
    json: { token: link },
    asked: email,
    answeredOf: (reply) => reply.email,
    parts: () => [{ kind: 'token', id: link, act: 'preview' }],
  })
  const password = `an invited one ${random.word(12)}`
  const { companyId } = world.admin
  const person = { companyId, email, password }
  await atAll(actor, (at) =>
    performUntilKnown(actor, {
      what: 'POST /auth/invitations/accept',
      json: { token: link, name: 'Bob', password },
      at,
      asked: companyId,
      answeredOf: (reply) => reply.companyId,
      parts: () => [{ kind: 'token', id: link, act: 'consume' }],
    }),
  )
  await signIn(actor, person)
}

/** Requests a link, and uses it on all instances at the same time. Returns the person's credentials after that. */
async function resetPassword(actor: Actor, { mails }: MailWorld, person: Credentials): Promise<Credentials> {
  const { companyId, email } = person
  const id = memberOf(person)
  const before = mails.length
  await perform(actor, { what: 'POST /auth/password/forgot', json: { companyId, email }, parts: () => [] })
  const token = await waitForLink(actor, mails, email, 'reset', before)
  if (token === null) return person
  // A link of an earlier request can come later.
  doubtToken(actor, token)
  const results = await atAll(actor, async (at) => {
    const newPassword = `a reset one ${actor.random.word(12)}`
    const { outcome } = await performUntilKnown(actor, {
      what: 'POST /auth/password/reset',
      json: { token, newPassword },
      at,
      parts: ({ outcome }) => [
        { kind: 'token', id: token, act: 'consume' },
        ...(outcome === 'refused' ? [] : [{ kind: 'sessions', id, act: 'end', kept: null } as const]),
      ],
    })
    return { outcome, newPassword }
  })
  const done = results.find(({ outcome }) => outcome === 'ok')
  const next = { ...person, password: done?.newPassword ?? person.password }
  await signIn(actor, next)
  return next
}
