import { Type } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type Client, parseReply, patient } from '../http-client.ts'
import type { Credentials } from './credentials.ts'
import { openSession } from './sign-in.ts'

const SecretReply = TypeCompiler.Compile(Type.Object({ secret: Type.String() }))

/** The key of SIGNING_SECRET, or of a new secret, which only an admin may make. */
export async function obtainSigningKey(client: Client, admin: Credentials): Promise<Buffer> {
  const secret = process.env['SIGNING_SECRET'] || (await regenerateSecret(client, admin))
  return Buffer.from(secret.slice('whsec_'.length), 'base64')
}

async function regenerateSecret(client: Client, admin: Credentials): Promise<string> {
  const { accessToken: token } = await openSession(client, admin)
  const path = '/api/auth/webhook-secret/regenerate'
  const reply = await patient(client).request(200, { method: 'POST', path, token })
  return parseReply(SecretReply, reply).secret
}
