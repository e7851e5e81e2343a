import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { requireCorrect } from '../drive/failure.ts'
import type { Operation } from '../drive/load.ts'
import { type Client, parseReply } from '../http-client.ts'
import type { LiveSession } from './credentials.ts'

const SessionReply = TypeCompiler.Compile(
  Type.Object({ session: Type.Object({ id: Type.String() }), permissions: Type.Array(Type.String()) }),
)
const RefreshReply = TypeCompiler.Compile(
  Type.Object({
    session: Type.Object({ id: Type.String() }),
    accessToken: Type.String(),
    refreshToken: Type.String(),
  }),
)

/** A little less than the 900 s that access tokens last by default. */
const MAX_TOKEN_AGE_MS = 800_000

/** Asks the service about each session in turn, with its access token. */
export function checkSession(client: Client, sessions: LiveSession[]): Operation {
  return inTurn(sessions, async (session) => {
    // A long run outlasts access tokens.
    if (Date.now() - session.accessTokenIssuedAt > MAX_TOKEN_AGE_MS) await rotate(client, session)
    const reply = await client.request(200, {
      method: 'GET',
      path: '/api/auth/session',
      token: session.accessToken,
    })
    const { session: answered, permissions } = parseReply(SessionReply, reply)
    requireCorrect(
      answered.id === session.id && permissions.length > 0,
      'a check of another session, or no permissions',
    )
  })
}

/** Rotates the tokens of each session in turn. */
export function refresh(client: Client, sessions: LiveSession[]): Operation {
  return inTurn(sessions, (session) => rotate(client, session))
}

/** Ends each session once. Virtual users may share the list. */
export function logout(client: Client, sessions: LiveSession[]): Operation {
  return () => {
    const session = sessions.pop()
    return session ? endSession(client, session) : null
  }
}

async function endSession(client: Client, { accessToken: token }: LiveSession): Promise<void> {
  await client.request(204, { method: 'POST', path: '/api/auth/logout', token })
}

async function rotate(client: Client, session: LiveSession): Promise<void> {
  const issuedAt = Date.now()
  const { refreshToken: token } = session
  const reply = await client.request(200, { method: 'POST', path: '/api/auth/refresh', token })
  const { session: answered, accessToken, refreshToken } = parseReply(RefreshReply, reply)
  requireCorrect(refreshToken !== token && answered.id === session.id, 'a refresh without a new token')
  session.accessToken = accessToken
  session.accessTokenIssuedAt = issuedAt
  session.refreshToken = refreshToken
}

export function inTurn(sessions: LiveSession[], use: (session: LiveSession) => Promise<void>): Operation {
  let turn = 0
  return async () => {
    turn = (turn + 1) % sessions.length
    const session = sessions[turn]
    if (session) await use(session)
  }
}
