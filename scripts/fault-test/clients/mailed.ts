import type { Credentials } from '../../kit/operations.ts'
import { doubtToken, expectMail, hasRivals, type Mailbox, seenIn, waitForMail } from './mailbox.ts'
import { type Actor, atAll, pause, perform, performUntilKnown } from './perform.ts'
import { memberOf, refresh, type Session, signIn } from './person.ts'

/** What goes by mail: invitations that are accepted or withdrawn, and passwords that are reset, each at all instances at once. */

export interface MailWorld extends Mailbox {
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
  const role = 'viewer'
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/invitations',
    token,
    json: { email, role },
    asked: email,
    answeredOf: (reply) => reply.email,
    parts: () => [],
  })
  expectMail(world, email, 'invite', outcome)
  const mail = await waitForMail(actor, world, email, 'invite', new Set())
  if (!mail) return
  const link = mail.token
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
      parts: ({ outcome }) => [
        { kind: 'token', id: link, act: 'consume' },
        ...(outcome === 'refused'
          ? []
          : [{ kind: 'member', id: memberOf(person), act: 'make', role, email, password } as const]),
      ],
    }),
  )
  await signIn(actor, person)
}

async function resetPassword(actor: Actor, world: MailWorld, person: Credentials): Promise<Credentials> {
  const [password = person.password] = await resetByMail(actor, world, person, memberOf(person))
  const next = { ...person, password }
  await signIn(actor, next)
  return next
}

/** Asks for a link, and uses it at all instances at once. Returns the passwords that can be in force. */
export async function resetByMail(
  actor: Actor,
  mailbox: Mailbox,
  { companyId, email }: Pick<Credentials, 'companyId' | 'email'>,
  member: string,
): Promise<string[]> {
  const before = seenIn(mailbox)
  const { outcome } = await perform(actor, {
    what: 'POST /auth/password/forgot',
    json: { companyId, email },
    parts: () => [],
  })
  expectMail(mailbox, email, 'reset', outcome)
  return await choosePassword(actor, mailbox, { email, member }, before)
}

/** By the link of the next mail. */
export async function choosePassword(
  actor: Actor,
  mailbox: Mailbox,
  { email, member: id }: { email: string; member: string },
  before: ReadonlySet<string>,
): Promise<string[]> {
  const mail = await waitForMail(actor, mailbox, email, 'reset', before)
  if (!mail) return []
  const { token } = mail
  // The reset also deletes what waits to be sent.
  if (hasRivals(mailbox, mail, 'reset', before)) doubtToken(actor, token)
  const results = await atAll(actor, async (at) => {
    const newPassword = `a reset one ${actor.random.word(12)}`
    const { outcome } = await performUntilKnown(actor, {
      what: 'POST /auth/password/reset',
      json: { token, newPassword },
      at,
      parts: ({ outcome }) => [
        { kind: 'token', id: token, act: 'consume' },
        ...(outcome === 'refused'
          ? []
          : [
              { kind: 'member', id, act: 'password', from: null, to: newPassword } as const,
              { kind: 'sessions', id, act: 'end', kept: null } as const,
              { kind: 'factor', id, act: 'forget' } as const,
            ]),
      ],
    })
    return { outcome, newPassword }
  })
  const done = results.find(({ outcome }) => outcome === 'ok')
  expectMail(mailbox, email, '', done ? 'ok' : 'unknown')
  return done ? [done.newPassword] : results.map(({ newPassword }) => newPassword)
}
