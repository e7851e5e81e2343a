import type { Credentials } from '../../kit/operations.ts'
import type { Part } from '../checker/history.ts'
import type { SessionPart } from '../checker/session.ts'
import { type Actor, type Answered, pause, perform, performUntilKnown, type Reply } from './perform.ts'

/** Somebody who signs in, works, refreshes with and without a key, and signs out, here and everywhere. */

export interface Session {
  id: string
  accessToken: string
  refreshToken: string
}

const PAUSE_MS = 300

export const memberOf = ({ companyId, email }: Credentials) => `${companyId} ${email}`
/** Whose session it is, as `memberOf` says it. */
export const memberIn = ({ user, accessContext }: Reply) =>
  user && accessContext && `${accessContext.companyId} ${user.email}`

export async function signIn(actor: Actor, credentials: Credentials): Promise<Session | null> {
  const { outcome, reply } = await perform(actor, {
    what: 'POST /auth/login',
    json: credentials,
    asked: memberOf(credentials),
    answeredOf: memberIn,
    parts: (answer) => openedBy(memberOf(credentials), answer),
  })
  return outcome === 'ok' ? toSession(reply) : null
}

function openedBy(owner: string, { reply }: Answered): Part[] {
  const session = toSession(reply)
  if (!session) return []
  const { id, refreshToken: token } = session
  return [{ kind: 'session', id, act: 'open', owner, token }]
}

function toSession({ session, accessToken, refreshToken }: Reply): Session | null {
  return session && accessToken && refreshToken ? { id: session.id, accessToken, refreshToken } : null
}

const sessionIdOf = ({ session }: Reply) => session?.id

/** False if the session has ended. */
export async function use(
  actor: Actor,
  { id, accessToken: token }: Session,
  at = actor.random.below(actor.clients.length),
): Promise<boolean> {
  const { outcome } = await perform(actor, {
    at,
    what: 'GET /auth/session',
    token,
    asked: id,
    answeredOf: sessionIdOf,
    parts: () => [{ kind: 'session', id, act: 'use' }],
  })
  return outcome !== 'refused'
}

/** The session with its next tokens; null if it is lost. */
export async function refresh(actor: Actor, session: Session, key: string | null): Promise<Session | null> {
  const { id, refreshToken: token } = session
  const ask = {
    what: 'POST /auth/refresh',
    token,
    headers: key === null ? {} : { 'idempotency-key': key },
    asked: id,
    answeredOf: sessionIdOf,
    parts: ({ reply }: Answered): SessionPart[] => [
      { kind: 'session', id, act: 'refresh', token, key, successor: reply.refreshToken ?? null },
    ],
  } as const
  // Without a key, a retry after a lost answer would be a theft.
  const { outcome, reply } = await (key === null ? perform(actor, ask) : performUntilKnown(actor, ask))
  return outcome === 'ok' ? toSession(reply) : null
}

/** Recent proof with its access token, which brings the next pair. Like a refresh, it has a key for its retry. */
async function prove(actor: Actor, session: Session, password: string): Promise<Session | null> {
  const { id, accessToken: token } = session
  const key = actor.random.word(16)
  const { outcome, reply } = await performUntilKnown(actor, {
    what: 'POST /auth/reauthenticate',
    token,
    json: { password },
    headers: { 'idempotency-key': key },
    asked: id,
    answeredOf: sessionIdOf,
    parts: ({ reply }) => [{ kind: 'session', id, act: 'prove', key, successor: reply.refreshToken ?? null }],
  })
  return outcome === 'ok' ? toSession(reply) : null
}

export async function logOut(actor: Actor, session: Session, owner: string): Promise<void> {
  const isAll = actor.random.isOneIn(4)
  const { id, accessToken: token } = session
  await performUntilKnown(actor, {
    what: isAll ? 'POST /auth/logout?scope=all' : 'POST /auth/logout',
    token,
    parts: ({ outcome }) => [
      { kind: 'session', id, act: 'end', isOwn: true },
      ...(isAll && outcome !== 'refused'
        ? [{ kind: 'sessions', id: owner, act: 'end', kept: id } as const]
        : []),
    ],
  })
  // On each instance, with each of its tokens.
  for (const at of actor.clients.keys()) {
    await use(actor, session, at)
    await perform(actor, {
      what: 'POST /auth/refresh',
      token: session.refreshToken,
      at,
      parts: ({ reply }) => [
        {
          ...{ kind: 'session', id, act: 'refresh', token: session.refreshToken, key: null },
          successor: reply.refreshToken ?? null,
        },
      ],
    })
  }
}

/** Several at once, on all instances, with one key or with none: one successor at most. */
async function race(actor: Actor, session: Session): Promise<Session | null> {
  const { random } = actor
  const key = random.isOneIn(2) ? random.word(16) : null
  const racing = Array.from({ length: 2 + random.below(3) }, () => refresh(actor, session, key))
  const results = await Promise.all(racing)
  return results.find((result) => result !== null) ?? null
}

/** What a thief would do: a token from before the last two comes again without its key, and the session ends. */
async function replay(actor: Actor, session: Session): Promise<void> {
  let current: Session | null = session
  for (let n = 0; n < 2 && current; n += 1) current = await refresh(actor, current, actor.random.word(16))
  if (!current) return
  await refresh(actor, session, null)
  for (const at of actor.clients.keys()) await use(actor, current, at)
}

/** Returns the password that is in force, if it is known; the one that was tried, else. */
async function changePassword(actor: Actor, session: Session, credentials: Credentials): Promise<string> {
  const newPassword = `a new one ${actor.random.word(12)}`
  const { password: currentPassword } = credentials
  const id = memberOf(credentials)
  const { outcome } = await perform(actor, {
    what: 'POST /auth/password/change',
    token: session.accessToken,
    json: { currentPassword, newPassword },
    parts: ({ outcome }) =>
      outcome === 'refused' ? [] : [{ kind: 'sessions', id, act: 'end', kept: session.id }],
  })
  return outcome === 'refused' ? currentPassword : newPassword
}

/** `isServer`: it has no password of its own to change or to prove. */
export async function livePerson(actor: Actor, given: Credentials, isServer = false): Promise<void> {
  const { random, ending } = actor
  const owner = memberOf(given)
  // The second is that of a change whose outcome is unknown.
  const passwords = [given.password]
  let session: Session | null = null
  while (!ending.aborted) {
    await pause(actor, PAUSE_MS)
    if (!session) {
      const password = random.pick(passwords)
      session = await signIn(actor, { ...given, password })
      // It is the one in force, and the other can come into force later.
      if (session) passwords.sort((one) => (one === password ? -1 : 1))
      continue
    }
    const before: Session = session
    const credentials = { ...given, password: passwords[0] ?? '' }
    const choice = random.below(25)
    if (choice < 8) session = (await use(actor, session)) ? session : null
    else if (choice < 13) session = await refresh(actor, session, random.word(16))
    else if (choice < 16) session = await refresh(actor, session, null)
    else if (choice < 19) session = await race(actor, session)
    else if (choice < 21 || isServer) {
      await logOut(actor, session, owner)
      session = null
    } else if (choice === 21) {
      await replay(actor, session)
      session = null
    } else if (choice < 24) session = await prove(actor, before, credentials.password)
    else
      passwords.splice(
        0,
        passwords.length,
        await changePassword(actor, before, credentials),
        credentials.password,
      )
  }
}
