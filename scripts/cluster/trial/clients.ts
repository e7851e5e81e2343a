import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Answer, type Client, JSON_CONTENT, openClient } from '../../load-test/http-client.ts'
import type { Credentials } from '../../load-test/operations/credentials.ts'
import { type Sender, signedHeaders } from '../../load-test/operations/ingest.ts'
import type { History, Session } from './history.ts'

/** A steady load of people and senders that try again, at the other proxy, as INTERFACE asks of them, and note all they saw. */

const Tokens = TypeCompiler.Compile(
  Type.Object({
    session: Type.Object({ id: Type.String() }),
    accessToken: Type.String(),
    refreshToken: Type.String(),
  }),
)
interface Crowd {
  urls: readonly string[]
  admin: Credentials
  sender: Sender
  history: History
}

const PEOPLE = 8
const SENDERS = 4
/** Between two requests of one, at most. */
const PAUSE_MS = 400
const RETRY_MS = 200
const DEADLINE_MS = 12_000
const TIMEOUT = 'timeout'
/** Within a second, a second use is no theft. */
const RACE_MS = 1_100
/** Requests of a session until it is ended. */
const SESSION_LENGTH = 20
/** Longer than whatever may be away. */
const PATIENCE_MS = 180_000

type Request = Parameters<Client['send']>[0]

/** Starts the load. `stop` lets each finish what it has begun, and returns the sessions that are still open. */
export function startClients({ urls, admin, sender, history }: Crowd) {
  const clients = urls.map((url) =>
    openClient(url, { connections: PEOPLE + SENDERS, deadlineMs: DEADLINE_MS }),
  )
  let isEnding = false
  let turn = 0

  /** Sends until the answer is not 503 and no connection has failed. */
  async function send(request: () => Request): Promise<Answer> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      turn += 1
      const client = clients[turn % clients.length]
      if (!client) throw new Error('no proxy')
      history.attempts += 1
      const answer = await client.send(request()).catch(toFailed)
      const isConnectionLost = answer.status === 0 && answer.text !== TIMEOUT
      if (!isConnectionLost && answer.status !== 503) return answer
      if (performance.now() > deadline) return answer
      const what = isConnectionLost ? answer.text : '503'
      history.failedAttempts.push({ at: performance.now(), what })
      await sleep(RETRY_MS)
    }
  }

  function acknowledge(): void {
    history.acknowledgedAt.push(performance.now())
  }

  function violate(what: string, { status, text }: Answer): void {
    const [, code = ''] = /"code":"([a-z_]+)"/.exec(text) ?? []
    history.violations.push(`${what}: ${status || text} ${code}`)
  }

  async function signIn(): Promise<Session | null> {
    const body = JSON.stringify(admin)
    const answer = await send(() => ({
      method: 'POST',
      path: '/api/auth/login',
      headers: JSON_CONTENT,
      body,
    }))
    const session = answer.status === 200 ? toSession(answer) : null
    if (session) acknowledge()
    else violate('a sign-in', answer)
    return session
  }

  async function refresh(session: Session): Promise<boolean> {
    const headers = { 'idempotency-key': randomBytes(12).toString('hex') }
    const { refreshToken: token } = session
    const answer = await send(() => ({ method: 'POST', path: '/api/auth/refresh', token, headers }))
    const next = answer.status === 200 ? toSession(answer) : null
    if (next?.id !== session.id) {
      violate('a refresh', answer)
      return false
    }
    acknowledge()
    Object.assign(session, next)
    return true
  }

  async function check(token: string): Promise<Answer> {
    return await send(() => ({ method: 'GET', path: '/api/auth/session', token }))
  }

  async function logOut(session: Session): Promise<void> {
    const { accessToken: token } = session
    const answer = await send(() => ({ method: 'POST', path: '/api/auth/logout', token }))
    // A lost answer is tried again, and then the session has ended.
    if (answer.status !== 204 && !isEnded(answer)) return violate('a logout', answer)
    acknowledge()
    history.ended.push(session)
    for (const _ of clients) await requireEnded(session)
  }

  async function requireEnded({ accessToken, refreshToken: token }: Session): Promise<void> {
    const checked = await check(accessToken)
    if (!isEnded(checked)) violate('a session that has ended', checked)
    const refreshed = await send(() => ({ method: 'POST', path: '/api/auth/refresh', token }))
    if (!isEnded(refreshed)) violate('a refresh of a session that has ended', refreshed)
  }

  /** The current token is good, and each one before it is not. */
  async function requireOneSuccessor(session: Session): Promise<void> {
    const { refreshToken: spent } = session
    if (!(await refresh(session)) || !(await refresh(session))) return
    await sleep(RACE_MS)
    const answer = await send(() => ({ method: 'POST', path: '/api/auth/refresh', token: spent }))
    if (answer.status !== 401) violate('a token that was spent', answer)
  }

  async function person(): Promise<Session | null> {
    let session: Session | null = null
    let requests = 0
    while (!isEnding) {
      await sleep(Math.random() * PAUSE_MS)
      session ??= await signIn()
      if (!session) continue
      requests += 1
      if (requests % SESSION_LENGTH === 0) {
        await logOut(session)
        session = null
      } else if (requests % 2 === 0) {
        if (!(await refresh(session))) session = null
      } else {
        const answer = await check(session.accessToken)
        if (answer.status !== 200) violate('a check of a session', answer)
      }
    }
    return session
  }

  async function sendEvents(): Promise<null> {
    while (!isEnding) {
      await sleep(Math.random() * PAUSE_MS)
      const id = randomBytes(12).toString('hex')
      const body = JSON.stringify({ id, type: 'trial.made', data: {} })
      const answer = await send(() => {
        const headers = signedHeaders(sender, id, body)
        return { method: 'POST', path: '/api/events/ingest', headers, body }
      })
      if (answer.status !== 202) {
        violate('an event', answer)
        continue
      }
      acknowledge()
      history.events.push(id)
    }
    return null
  }

  const running = [...Array.from({ length: PEOPLE }, person), ...Array.from({ length: SENDERS }, sendEvents)]
  return {
    requireEnded,
    requireOneSuccessor,
    async stop(): Promise<Session[]> {
      isEnding = true
      const sessions = await Promise.all(running)
      return sessions.filter((session) => session !== null)
    },
    async close(): Promise<void> {
      await Promise.all(clients.map((client) => client.close()))
    },
  }
}

/** Of a connection, by the code of its error, or of an answer that did not come in time. */
function toFailed(error: NodeJS.ErrnoException): Answer {
  return { status: 0, cookies: [], text: error.code ?? TIMEOUT }
}

function toSession({ text }: Answer): Session | null {
  const reply: unknown = JSON.parse(text)
  if (!Tokens.Check(reply)) return null
  const { session, accessToken, refreshToken } = reply
  return { id: session.id, accessToken, refreshToken }
}

function isEnded({ status, text }: Answer): boolean {
  return status === 401 && text.includes('"session_ended"')
}
