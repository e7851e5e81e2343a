import fastifySwagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'

const PUBLIC_TAGS = [
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
  Challenge: header('How to authenticate (RFC 6750, section 3; RFC 7617, section 2)'),
  SessionCookie: header('With `X-Session-Mode: cookie` only: the `__Host-session` cookie'),
}

const PARAMETERS = {
  SessionId: {
    in: 'header',
    name: 'x-session-id',
    description:
      'With the session cookie: the ID of the session that the page shows. If the cookie belongs to a different session, nothing is done. A 401 does not expire the cookie then, because the page may have a newer one',
    schema: { type: 'string', format: 'uuid' },
    example: '01890a5d-ac96-774b-bcce-b302099a8057',
  },
} as const

const { accessToken, sessionCookie } = SECURITY_SCHEMES
const { RequestId, RetryAfter, Challenge } = HEADERS
const DOCUMENTS = {
  public: {
    title: 'gatehouse',
    tags: PUBLIC_TAGS,
    components: { headers: HEADERS, parameters: PARAMETERS, securitySchemes: SECURITY_SCHEMES },
  },
  platform: {
    title: 'gatehouse, for services of the platform',
    tags: [
      { name: 'sessions', description: 'Whose a credential is, and what they may do' },
      { name: 'events', description: 'Ingested events, in one order' },
      { name: 'keys', description: 'This document' },
    ],
    components: {
      headers: { RequestId, RetryAfter, Challenge },
      securitySchemes: {
        platformClient: {
          type: 'http',
          scheme: 'basic',
          description: 'ID and secret of a platform client (RFC 6749, section 2.3.1)',
        },
        accessToken,
        sessionCookie,
      },
    },
  },
} as const

async function plugin(
  app: FastifyInstance,
  { listener, url, guide }: { listener: keyof typeof DOCUMENTS; url: string; guide: string },
): Promise<void> {
  const { title, tags, components } = DOCUMENTS[listener]
  const license = { name: 'MIT', identifier: 'MIT' }
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title, version: '1.1', description: guide, license },
      servers: [{ url }],
      tags: [...tags],
      components,
    },
    stripBasePath: true,
    refResolver: {
      buildLocalReference: (json, _base, _fragment, index) => String(json['$id'] ?? `schema-${index}`),
    },
  })
}

export const openapiPlugin = fp(plugin, { name: 'openapi', dependencies: ['responses'] })
