import type { Credentials } from '../../kit/operations.ts'
import { type Actor, perform, performUntilKnown, type Reply, repeat, type Session } from './perform.ts'

/** Signs in, works, refreshes with and without a key, and signs out, here and everywhere. */

export async function signIn(actor: Actor, credentials: Credentials): Promise<Session | null> {
  const owner = memberOf(credentials)
  const { reply } = await perform(actor, {
    what: 'POST /auth/login',
    json: credentials,
    isAnswer: ({ user, accessContext }) => `${accessContext?.companyId} ${user?.email}` === owner,
    parts({ reply }) {
      const session = toSession(reply)
      return session
        ? [{ kind: 'session', id: session.id, act: 'open', owner, token: session.refreshToken }]
        : []
    },
  })
  const session = toSession(reply)
  if (session) actor.notes.sessions.push(session)
  return session
}

const memberOf = ({ companyId, email }: Credentials) => `${companyId} ${email}`

function toSession({ session, accessToken, refreshToken }: Reply): Session | null {
  return session && accessToken && refreshToken ? { id: session.id, accessToken, refreshToken } : null
}

/** False if the session is known to have ended. */
export async function use(actor: Actor, { id, accessToken: token }: Session, at?: number): Promise<boolean> {
  const { outcome } = await perform(actor, {
    at,
    what: 'GET /auth/session',
    token,
    isAnswer: ({ session }) => session?.id === id,
    parts: () => [{ kind: 'session', id, act: 'use' }],
  })
  return outcome !== 'refused'
}

/** Null if the tokens are lost. */
async function refresh(
  actor: Actor,
  { id, refreshToken: token }: Session,
  key: string | null,
  at?: number,
): Promise<Session | null> {
  // Without a key, a retry after a lost response would count as theft.
  const work = key === null ? perform : performUntilKnown
  const { reply } = await work(actor, {
    at,
    what: 'POST /auth/refresh',
    token,
    headers: key === null ? {} : { 'idempotency-key': key },
    isAnswer: ({ session }) => session?.id === id,
    parts: ({ reply }) => [
      { kind: 'session', id, act: 'refresh', token, key, successor: reply.refreshToken ?? null },
    ],
  })
  return toSession(reply)
}

async function logOut(actor: Actor, session: Session, owner: string): Promise<void> {
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
  for (const at of actor.clients.keys()) {
    await use(actor, session, at)
    await refresh(actor, session, null, at)
  }
}

/** Concurrent refreshes, all with one key or without one: at most one successor. */
async function race(actor: Actor, session: Session): Promise<Session | null> {
  const { random } = actor
  const key = random.isOneIn(2) ? random.word(16) : null
  const racing = Array.from({ length: 2 + random.below(3) }, () => refresh(actor, session, key))
  const results = await Promise.all(racing)
  return results.find((result) => result !== null) ?? null
}

/** A thief's request: a token from before the last two, without its key, ends the session. */
async function replay(actor: Actor, session: Session): Promise<void> {
  let current: Session | null = session
  for (let n = 0; n < 2 && current; n += 1) current = await refresh(actor, current, actor.random.word(16))
  if (!current) return
  await refresh(actor, session, null)
  for (const at of actor.clients.keys()) await use(actor, current, at)
}

export async function livePerson(actor: Actor, credentials: Credentials): Promise<void> {
  const { random } = actor
  let session: Session | null = null
  await repeat(actor, async () => {
    const choice = random.below(22)
    if (!session) session = await signIn(actor, credentials)
    else if (choice < 8) session = (await use(actor, session)) ? session : null
    else if (choice < 13) session = await refresh(actor, session, random.word(16))
    else if (choice < 16) session = await refresh(actor, session, null)
    else if (choice < 19) session = await race(actor, session)
    else {
      if (choice < 21) await logOut(actor, session, memberOf(credentials))
      else await replay(actor, session)
      session = null
    }
  })
}
