import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { requireCorrect } from '../drive/failure.ts'
import type { Operation } from '../drive/load.ts'
import { type Client, JSON_CONTENT, parseReply, patient } from '../http-client.ts'
import type { Credentials, LiveSession } from './credentials.ts'

const LoginReply = TypeCompiler.Compile(
  Type.Object({
    user: Type.Object({ email: Type.String() }),
    session: Type.Object({ id: Type.String() }),
    accessToken: Type.String(),
    refreshToken: Type.String(),
  }),
)

/** Signs these users in, one after the other. */
export function signIn(client: Client, users: Credentials[]): Operation {
  // Virtual users start at different places, so that they rarely sign in the same user at once.
  let turn = Math.floor(Math.random() * users.length)
  return async () => {
    turn = (turn + 1) % users.length
    const credentials = users[turn]
    if (!credentials) return
    const { user } = await logIn(client, credentials)
    requireCorrect(user.email === credentials.email, 'sign-in of another user')
  }
}

/** Signs a user in before a measurement, and returns the new session. */
export async function openSession(client: Client, credentials: Credentials): Promise<LiveSession> {
  const accessTokenIssuedAt = Date.now()
  const { session, accessToken, refreshToken } = await logIn(patient(client), credentials)
  return { id: session.id, accessToken, accessTokenIssuedAt, refreshToken }
}

async function logIn(client: Client, credentials: Credentials) {
  const reply = await client.request(200, {
    method: 'POST',
    path: '/api/auth/login',
    headers: JSON_CONTENT,
    body: JSON.stringify(credentials),
  })
  return parseReply(LoginReply, reply)
}
