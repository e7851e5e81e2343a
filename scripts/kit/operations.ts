import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import {
  type Answer,
  type Client,
  JSON_CONTENT,
  patient,
  type Request,
  requireCorrect,
  requireStatus,
} from './client.ts'

export interface Operation {
  /** Undefined if nothing is left to do. */
  request(): Request | undefined
  /** @throws Failure for an unexpected response */
  take(answer: Answer): void
}

/** The body of a sign-in. */
export interface Credentials {
  companyId: string
  email: string
  password: string
}

/** An active session. Operations that rotate its tokens update it. */
export interface LiveSession {
  id: string
  accessToken: string
  refreshToken: string
}

export async function perform(client: Client, operation: Operation): Promise<void> {
  const request = operation.request()
  if (request) operation.take(await client.send(request))
}

/** @throws Failure for a different status, or a body that does not match the schema */
export function replyOf<T extends TSchema>(schema: T, status: number, answer: Answer): Static<T> {
  requireStatus(status, answer)
  let body: unknown
  try {
    body = JSON.parse(answer.text)
  } catch {}
  const isExpected = (checks.get(schema) ?? compile(schema)).Check(body)
  requireCorrect(isExpected, 'not the expected JSON')
  return body as Static<T>
}

const checks = new Map<TSchema, ReturnType<typeof TypeCompiler.Compile>>()

function compile(schema: TSchema) {
  const check = TypeCompiler.Compile(schema)
  checks.set(schema, check)
  return check
}

const LoginReply = Type.Object({
  user: Type.Object({ email: Type.String() }),
  session: Type.Object({ id: Type.String() }),
  accessToken: Type.String(),
  refreshToken: Type.String(),
})
const SessionReply = Type.Object({
  session: Type.Object({ id: Type.String() }),
  permissions: Type.Array(Type.String()),
})
const RefreshReply = Type.Object({
  session: Type.Object({ id: Type.String() }),
  accessToken: Type.String(),
  refreshToken: Type.String(),
})

export const loginRequest = (credentials: Credentials, headers: Record<string, string> = {}): Request => ({
  method: 'POST',
  path: '/api/auth/login',
  headers: { ...JSON_CONTENT, ...headers },
  body: JSON.stringify(credentials),
})

export function signIn(users: readonly Credentials[]): Operation {
  // Virtual users start at different positions, so that they rarely sign in the same user at the same time.
  const next = inTurn(users, Math.floor(Math.random() * users.length))
  let signingIn: Credentials | undefined
  return {
    request() {
      signingIn = next()
      return loginRequest(signingIn)
    },
    take(answer) {
      const { user } = replyOf(LoginReply, 200, answer)
      requireCorrect(user.email === signingIn?.email, 'sign-in of a different user')
    },
  }
}

export async function openSession(client: Client, credentials: Credentials): Promise<LiveSession> {
  const answer = await patient(client).send(loginRequest(credentials))
  const { session, accessToken, refreshToken } = replyOf(LoginReply, 200, answer)
  return { id: session.id, accessToken, refreshToken }
}

export function checkSession(sessions: readonly LiveSession[]): Operation {
  const next = inTurn(sessions)
  let asked: LiveSession
  return {
    request() {
      asked = next()
      return { method: 'GET', path: '/api/auth/session', token: asked.accessToken }
    },
    take(answer) {
      const { session, permissions } = replyOf(SessionReply, 200, answer)
      requireCorrect(session.id === asked.id, 'a check of a different session')
      requireCorrect(permissions.length > 0, 'a session without permissions')
    },
  }
}

export function refresh(sessions: readonly LiveSession[]): Operation {
  const next = inTurn(sessions)
  let rotating: LiveSession
  return {
    request() {
      rotating = next()
      return { method: 'POST', path: '/api/auth/refresh', token: rotating.refreshToken }
    },
    take(answer) {
      const { session, accessToken, refreshToken } = replyOf(RefreshReply, 200, answer)
      const isNew = refreshToken !== rotating.refreshToken && session.id === rotating.id
      requireCorrect(isNew, 'a refresh without a new token')
      Object.assign(rotating, { accessToken, refreshToken })
    },
  }
}

/** Ends each session once. Virtual users can share the list. */
export function logout(sessions: LiveSession[]): Operation {
  return {
    request() {
      const session = sessions.pop()
      return session && { method: 'POST', path: '/api/auth/logout', token: session.accessToken }
    },
    take: (answer) => requireStatus(204, answer),
  }
}

const IntrospectReply = Type.Object({ active: Type.Literal(true), sid: Type.String() })

export function introspect(
  sessions: readonly LiveSession[],
  { id, secret }: { id: string; secret: string },
): Operation {
  const next = inTurn(sessions)
  const headers = {
    authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  let asked: LiveSession
  return {
    request() {
      asked = next()
      return { method: 'POST', path: '/introspect', headers, body: `token=${asked.accessToken}` }
    },
    take(answer) {
      const { sid } = replyOf(IntrospectReply, 200, answer)
      requireCorrect(sid === asked.id, 'an introspection of a different session')
    },
  }
}

export function verify(sessions: readonly LiveSession[]): Operation {
  const next = inTurn(sessions)
  return {
    request: () => ({ method: 'GET', path: '/verify?permission=risk:read', token: next().accessToken }),
    take: (answer) => requireStatus(200, answer),
  }
}

function inTurn<T>(all: readonly T[], first = 0): () => T {
  let turn = first
  return () => {
    turn = (turn + 1) % all.length
    const one = all[turn]
    if (one === undefined) throw new Error('the list is empty')
    return one
  }
}
