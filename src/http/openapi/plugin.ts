import fastifySwagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const TAGS = [
  { name: 'authentication', description: 'Sign-in, refresh and logout' },
  { name: 'session', description: "The user's own sessions and password" },
  { name: 'account', description: 'Name and e-mail of the user' },
  {
    name: 'second factors',
    description: 'Authenticator apps, passkeys, recovery codes, and the policy on them',
  },
  { name: 'members', description: 'The people and servers of a company, and invitations' },
  { name: 'audit', description: 'What was done in the company, by whom' },
  { name: 'onboarding', description: 'Registration, verification, reset and invitations; all by mail' },
  { name: 'signing-secret', description: 'The secret that events are signed with' },
  { name: 'events', description: 'Signed ingestion of events' },
  { name: 'keys', description: 'Public keys and this document' },
]

const SECURITY_SCHEMES = {
  accessToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The access token of a sign-in or refresh',
  },
  refreshToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'The refresh token of a sign-in or refresh; it works once',
  },
  sessionCookie: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-session',
    description: 'Set by a sign-in with `X-Session-Mode: cookie`, in place of both tokens',
  },
  signature: {
    type: 'apiKey',
    in: 'header',
    name: 'webhook-signature',
    description:
      'Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`. The key is what the base64 behind `whsec_` decodes to',
  },
} as const

const header = (description: string, type: 'string' | 'integer' = 'string') => ({
  description,
  schema: { type },
})
export const HEADERS = {
  RequestId: header('Names this request in the log'),
  RateLimit: header('What is left of the limit: `"name";r=<remaining>;t=<seconds until it is whole>`'),
  RateLimitPolicy: header('The limit: `"name";q=<requests>;w=<seconds>`'),
  RetryAfter: header('Seconds after which a retry may succeed', 'integer'),
  Challenge: header('How to authenticate (RFC 6750, section 3)'),
  SessionCookie: header('With `X-Session-Mode: cookie` only: the `__Host-session` cookie'),
}

const PARAMETERS = {
  SessionId: {
    in: 'header',
    name: 'x-session-id',
    description:
      'With the session cookie: the ID of the session that the page shows. If the cookie belongs to a different session, nothing is done',
    schema: { type: 'string', format: 'uuid' },
    example: '01890a5d-ac96-774b-bcce-b302099a8057',
  },
} as const

async function plugin(
  app: FastifyInstance,
  { publicUrl, guide }: { publicUrl: string; guide: string },
): Promise<void> {
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'gatehouse',
        version: '1.1',
        description: guide,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: `${publicUrl}/api` }],
      tags: TAGS,
      components: { headers: HEADERS, parameters: PARAMETERS, securitySchemes: SECURITY_SCHEMES },
    },
    stripBasePath: true,
    refResolver: {
      buildLocalReference: (json, _base, _fragment, index) => String(json['$id'] ?? `schema-${index}`),
    },
  })
}

export const openapiPlugin = fp(plugin, { name: 'openapi', dependencies: ['responses'] })
