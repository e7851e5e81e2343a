import { STATUS_CODES } from 'node:http'
import fastifySwagger from '@fastify/swagger'
import { type TSchema, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { catalogue, type ProblemCode, ProblemReply, statusOf } from '../errors.ts'

/** What any request may meet before or instead of its handler. */
const EVERYWHERE: ProblemCode[] = [
  'invalid_request',
  'malformed_http',
  'request_timeout',
  'headers_too_large',
  'rate_limited',
  'internal_error',
  'overloaded',
  'unavailable',
]
/** What a request that may carry a body meets besides. */
export const WITH_BODY = ['malformed_body', 'payload_too_large', 'unsupported_media_type'] as const
/** What a request behind the session guard meets besides. */
export const WITH_SESSION = [
  'missing_credentials',
  'invalid_token',
  'token_expired',
  'session_ended',
  'cross_site_request',
] as const

/** A route's answers by status: its own, and the problems it can meet, as the OpenAPI document lists them. */
export function answers<Own extends Record<number, TSchema>>(own: Own, ...codes: ProblemCode[]): Own {
  const byStatus = Map.groupBy(new Set([...codes, ...EVERYWHERE]), statusOf)
  const problems = [...byStatus].map(([status, ofStatus]) => [
    status,
    {
      description: ofStatus.map((code) => `${catalogue[code][2]} (\`${code}\`)`).join('; '),
      content: { 'application/problem+json': { schema: { $ref: 'Problem#' } } },
    },
  ])
  return { ...own, ...Object.fromEntries(problems) }
}

const DESCRIPTION = `Sign-in, sessions, the event-signing secret and signed event ingestion.

Every error is \`application/problem+json\` (RFC 9457); \`code\` tells programs what happened, \`detail\` tells
people what to do. Unknown fields and parameters are refused.`

const header = (description: string, type: 'string' | 'integer' = 'string') => ({
  description,
  schema: { type },
})
const HEADERS = {
  RequestId: header('Names this request in the log'),
  RateLimit: header('What is left of the limit: `"name";r=<remaining>;t=<seconds until it is whole>`'),
  RateLimitPolicy: header('The limit: `"name";q=<requests>;w=<seconds>`'),
  RetryAfter: header('Seconds after which a retry may succeed', 'integer'),
  Challenge: header('How to authenticate (RFC 6750, section 3)'),
  SessionCookie: header('With `X-Session-Mode: cookie` only: the `__Host-session` cookie'),
}

/** The headers of an answer, by its status, as references to their descriptions. */
function headersOf(status: number, setsCookie: boolean): Record<string, { $ref: string }> {
  const described: [string, keyof typeof HEADERS][] = [['X-Request-Id', 'RequestId']]
  if (status < 300 || status === 429) {
    described.push(['RateLimit', 'RateLimit'], ['RateLimit-Policy', 'RateLimitPolicy'])
  }
  if (status === 429 || status === 503) described.push(['Retry-After', 'RetryAfter'])
  if (status === 401) described.push(['WWW-Authenticate', 'Challenge'])
  if (status < 300 && setsCookie) described.push(['Set-Cookie', 'SessionCookie'])
  return Object.fromEntries(
    described.map(([name, component]) => [name, { $ref: `#/components/headers/${component}` }]),
  )
}

/** Collects the schemas that requests are validated with into one OpenAPI 3.1 document. */
async function plugin(app: FastifyInstance, { publicUrl }: { publicUrl: string }): Promise<void> {
  app.addSchema(ProblemReply)
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'gatehouse',
        version: '1.1',
        description: DESCRIPTION,
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: `${publicUrl}/api` }],
      tags: [
        { name: 'authentication', description: 'Sign-in, refresh and logout' },
        { name: 'session', description: "The caller's own sessions and password" },
        { name: 'onboarding', description: 'Registration, verification, reset and invitations; all by mail' },
        { name: 'signing-secret', description: 'The secret that events are signed with' },
        { name: 'events', description: 'Signed ingestion of events' },
        { name: 'keys', description: 'Public keys and this document' },
      ],
      components: {
        headers: HEADERS,
        securitySchemes: {
          accessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          refreshToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
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
            description: 'Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `id.timestamp.body`',
          },
        },
      },
    },
    stripBasePath: true,
    refResolver: {
      buildLocalReference: (json, _base, _fragment, index) => String(json['$id'] ?? `schema-${index}`),
    },
  })
}

export const openapiPlugin = fp(plugin, { name: 'openapi' })

interface Schema {
  anyOf?: Schema[]
  type?: string
  enum?: string[]
  properties?: Record<string, Schema>
}

/** Of an operation, what the plugin leaves to be said. */
interface Operation {
  parameters?: { in: string; name: string; required: boolean }[]
  requestBody?: { required: boolean; content: { 'application/json': { schema: Schema } } }
  security: Record<string, string[]>[]
  responses: Record<string, { description: string; headers?: Record<string, { $ref: string }> }>
}

interface Document {
  paths: Record<string, Record<string, Operation>>
}

/** Says what cannot be read off the schemas, and says more plainly what can. */
function describe(operation: Operation): void {
  const { parameters = [], requestBody, security, responses } = operation
  const json = requestBody?.content['application/json']
  const [shape, nothing] = json?.schema.anyOf ?? []
  if (requestBody && json && shape && nothing?.type === 'null') {
    requestBody.required = false
    json.schema = shape
    // That an empty object is taken for no body is a kindness, not a part of the interface.
    if (Object.keys(shape.properties ?? {}).length === 0) delete operation.requestBody
  }
  // The guard answers for these headers, not the schema, so that what lacks one is answered 401.
  if (security.some((schemes) => 'signature' in schemes)) {
    for (const parameter of parameters) parameter.required ||= parameter.in === 'header'
  }
  const setsCookie = parameters.some(({ name }) => name === 'x-session-mode')
  for (const [status, response] of Object.entries(responses)) {
    if (response.description === 'Default Response') response.description = STATUS_CODES[status] ?? status
    response.headers = headersOf(Number(status), setsCookie)
  }
}

/** One of several words, which TypeBox writes as a union of constants, becomes an enumeration. */
function joinConstants(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('anyOf' in value) || !Array.isArray(value.anyOf)) {
    return value
  }
  const { anyOf, ...others } = value
  const words = anyOf.flatMap((schema: Schema) => (schema.type === 'string' ? (schema.enum ?? []) : []))
  return words.length === anyOf.length ? { ...others, type: 'string', enum: words } : value
}

/** The document itself; made once, when first asked for. */
export async function openapiRoutes(app: FastifyInstance): Promise<void> {
  let document: Document | undefined

  app.get(
    '/openapi.json',
    {
      schema: {
        operationId: 'getOpenApi',
        summary: 'This document',
        tags: ['keys'],
        security: [],
        response: answers({
          200: Type.Object({}, { additionalProperties: true, description: 'OpenAPI 3.1' }),
        }),
      },
    },
    async (_request, reply) => {
      reply.header('cache-control', 'public, max-age=300')
      document ??= readDocument()
      return document
    },
  )

  function readDocument(): Document {
    const read: Document = JSON.parse(JSON.stringify(app.swagger()), joinConstants)
    for (const operations of Object.values(read.paths)) Object.values(operations).forEach(describe)
    return read
  }
}
