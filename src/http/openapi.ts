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
        { name: 'session', description: "The caller's own session" },
        { name: 'signing-secret', description: 'The secret that events are signed with' },
        { name: 'events', description: 'Signed ingestion of events' },
        { name: 'keys', description: 'Public keys and this document' },
      ],
      components: {
        securitySchemes: {
          accessToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          refreshToken: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' },
          sessionCookie: { type: 'apiKey', in: 'cookie', name: '__Host-session' },
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

/** The document itself; made once, when first asked for. */
export async function openapiRoutes(app: FastifyInstance): Promise<void> {
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
      return app.swagger()
    },
  )
}
