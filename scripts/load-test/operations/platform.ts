import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { requireCorrect } from '../drive/failure.ts'
import type { Operation } from '../drive/load.ts'
import { type Client, parseReply } from '../http-client.ts'
import type { LiveSession } from './credentials.ts'
import { inTurn } from './sessions.ts'

/** What services of the platform ask about sessions, by access token. */

const IntrospectReply = TypeCompiler.Compile(
  Type.Object({ active: Type.Literal(true), sid: Type.String(), scope: Type.String() }),
)

export function introspect(
  client: Client,
  sessions: LiveSession[],
  { id, secret }: { id: string; secret: string },
): Operation {
  const headers = {
    authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`,
    'content-type': 'application/x-www-form-urlencoded',
  }
  return inTurn(sessions, async ({ id, accessToken }) => {
    const body = `token=${accessToken}`
    const reply = await client.request(200, { method: 'POST', path: '/introspect', headers, body })
    requireCorrect(parseReply(IntrospectReply, reply).sid === id, 'an introspection of another session')
  })
}

export function verify(client: Client, sessions: LiveSession[]): Operation {
  return inTurn(sessions, async ({ accessToken: token }) => {
    await client.request(200, { method: 'GET', path: '/verify?permission=risk:read', token })
  })
}
