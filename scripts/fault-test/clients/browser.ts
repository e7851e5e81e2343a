import type { Credentials } from '../../kit/operations.ts'
import { type Actor, type Answered, atAll, pause, perform, performUntilKnown, SAME_SITE } from './perform.ts'
import { memberIn, memberOf } from './person.ts'

/** Somebody with a browser, whose sessions have cookies. */

interface Session {
  id: string
  cookie: string
}

const PAUSE_MS = 300

export async function liveBrowser(actor: Actor, person: Credentials): Promise<void> {
  const { random, ending } = actor
  let session: Session | null = null
  while (!ending.aborted) {
    await pause(actor, PAUSE_MS)
    const choice = random.below(10)
    if (!session || choice === 0) session = await signIn(actor, person, session)
    else if (choice < 6) session = (await use(actor, session)) ? session : null
    else if (choice < 8) session = await prove(actor, session, person.password)
    else {
      await logOut(actor, session)
      session = null
    }
  }
}

/** The session that the browser had ends when the new one opens. */
async function signIn(actor: Actor, person: Credentials, former: Session | null): Promise<Session | null> {
  const member = memberOf(person)
  const answer = await perform(actor, {
    what: 'POST /auth/login',
    json: person,
    headers: { 'x-session-mode': 'cookie', ...SAME_SITE },
    ...(former && { cookie: former.cookie }),
    asked: member,
    answeredOf: memberIn,
    parts: (answer) => {
      const session = toSession(answer)
      return [
        ...(session
          ? [{ kind: 'session', id: session.id, act: 'open', owner: member, token: session.cookie } as const]
          : []),
        ...(former && answer.outcome !== 'refused'
          ? [{ kind: 'session', id: former.id, act: 'end', isOwn: false } as const]
          : []),
      ]
    },
  })
  return remember(actor, toSession(answer))
}

function toSession({ reply: { session }, cookie }: Answered): Session | null {
  return session && cookie !== undefined ? { id: session.id, cookie } : null
}

function remember({ notes }: Actor, session: Session | null): Session | null {
  if (session) notes.credentials.set(session.id, { cookie: session.cookie })
  return session
}

/** False if the session has ended. */
async function use(actor: Actor, { id, cookie }: Session, at?: number): Promise<boolean> {
  const { outcome } = await perform(actor, {
    ...(at !== undefined && { at }),
    what: 'GET /auth/session',
    cookie,
    asked: id,
    answeredOf: ({ session }) => session?.id,
    parts: () => [{ kind: 'session', id, act: 'use', cookie }],
  })
  return outcome !== 'refused'
}

/** At all instances at once: one of them gives the next cookie. Null if nobody knows which cookie it is. */
async function prove(actor: Actor, session: Session, password: string): Promise<Session | null> {
  const { id, cookie } = session
  const answers = await atAll(actor, (at) =>
    perform(actor, {
      at,
      what: 'POST /auth/reauthenticate',
      cookie,
      json: { password },
      parts: (answer) => [{ kind: 'session', id, act: 'renew', cookie, successor: answer.cookie ?? null }],
    }),
  )
  await use(actor, session)
  const next = answers.find(({ outcome }) => outcome === 'ok')?.cookie
  return next === undefined ? null : remember(actor, { id, cookie: next })
}

async function logOut(actor: Actor, session: Session): Promise<void> {
  const { id, cookie } = session
  await performUntilKnown(actor, {
    what: 'POST /auth/logout',
    cookie,
    parts: () => [{ kind: 'session', id, act: 'end', isOwn: true }],
  })
  for (const at of actor.clients.keys()) await use(actor, session, at)
}
