import fastifySwagger from '@fastify/swagger'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { SESSION_COOKIE } from '../headers.ts'

const PUBLIC_TAGS = [
  { name: 'authentication', description: 'Sign-in, refresh, and logout' },
  { name: 'session', description: 'Sessions and password of the user' },
  { name: 'account', description: 'Name and email of the user' },
  {
    name: 'second factors',
    description: 'Authenticator apps, passkeys, recovery codes, and the company policy',
  },
  { name: 'members', description: 'Members, service accounts, and invitations of the company' },
  { name: 'audit', description: 'Audit trail of the company' },
  { name: 'onboarding', description: 'Registration, email verification, password reset, and invitations' },
  { name: 'signing-secret', description: 'Secret that signs events' },
  { name: 'events', description: 'Ingestion of signed events' },
  { name: 'keys', description: 'Public keys and this document' },
]

const SECURITY_SCHEMES = {
  accessToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'Access token from a sign-in or refresh',
  },
  refreshToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'Refresh token from a sign-in or refresh. It works once',
  },
  sessionCookie: {
    type: 'apiKey',
    in: 'cookie',
    name: SESSION_COOKIE,
    description: 'Cookie from a sign-in with `X-Session-Mode: cookie`, instead of tokens',
  },
  servicePassword: {
    type: 'http',
    scheme: 'bearer',
    description: 'Password of a service account: `gsp_` and 43 characters',
  },
  signature: {
    type: 'apiKey',
    in: 'header',
    name: 'webhook-signature',
    description:
      'Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`. The key is the decoded base64 after `whsec_`',
  },
} as const

const header = (description: string, type: 'string' | 'integer' = 'string') => ({
  description,
  schema: { type },
})
export const HEADERS = {
  RequestId: header('ID of this request in the log'),
  RateLimit: header('Remaining uses of the limit: `"name";r=<remaining>;t=<seconds until reset>`'),
  RateLimitPolicy: header('Limit: `"name";q=<uses>;w=<seconds>`'),
  RetryAfter: header('Seconds to wait before a retry', 'integer'),
  Challenge: header('Authentication scheme (RFC 6750, section 3; RFC 7617, section 2)'),
  SessionCookie: header('The cookie `__Host-session`; only with `X-Session-Mode: cookie`'),
}

const PARAMETERS = {
  SessionId: {
    in: 'header',
    name: 'x-session-id',
    description:
      'ID of the session that the page shows; only with the session cookie. If the cookie belongs to a different session, the request is refused. With this header, a 401 does not expire the cookie, because the browser may have a newer one',
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
    title: 'gatehouse, for platform services',
    tags: [
      { name: 'sessions', description: 'Owner and rights of a credential' },
      { name: 'events', description: 'Feed of ingested events' },
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
