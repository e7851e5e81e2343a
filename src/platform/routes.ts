import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { invalidField } from '../errors.ts'
import { mediaType } from '../http/body.ts'
import type { Context } from '../http/context.ts'
import { type Routes, scopedRoutes } from '../http/operations.ts'
import { toProblem } from '../http/problems.ts'
import { responses, responsesBy } from '../http/responses.ts'
import type { SessionLookUp } from '../session/look-up.ts'
import { type Feed, type FeedPage, toText } from './feed.ts'
import * as introspection from './introspection.ts'
import * as schemas from './schemas.ts'

interface Options {
  context: Context
  sessions: SessionLookUp
}

const FORM_BYTES = 64 * 1024
const FORM_TYPE = mediaType('application/x-www-form-urlencoded')

const introspecting: FastifyPluginAsyncTypebox<Options> = async (app, { context, sessions }) => {
  const introspect = introspection.createIntrospection({ ...context, sessions })
  // Also formats errors of the guards.
  app.setErrorHandler(async (error) => {
    throw introspection.toOAuth(toProblem(error))
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    const bytes = await request.readBody(FORM_TYPE)
    const [token, ...others] = new URLSearchParams(bytes?.toString()).getAll('token')
    if (others.length > 0) throw invalidField('token', 'must be sent only once')
    return { token }
  })
  app.post(
    '/introspect',
    {
      bodyLimit: FORM_BYTES,
      schema: {
        operationId: 'introspect',
        summary: 'Introspect a credential',
        description:
          'RFC 7662, for access tokens and session cookies, by the scope `introspect`. A cookie is not renewed. An expired, ended, restricted, or unknown credential returns `{"active": false}` only.',
        tags: ['sessions'],
        consumes: ['application/x-www-form-urlencoded'],
        body: schemas.IntrospectBody,
        response: responses({ 200: schemas.IntrospectReply }),
      },
    },
    async ({ body, logContext }) => {
      const { reply, found } = await introspect(body.token, context.system.now())
      Object.assign(logContext, found)
      return reply
    },
  )
}

const reading: Routes<{ feed: Feed }> = async (app, { context: { feed } }) => {
  app.get(
    '/events',
    {
      schema: {
        operationId: 'readEvents',
        summary: 'Read ingested events',
        description:
          'In one stable order, by the scope `events:read`. Each reader keeps its own cursor. Nothing that is committed is skipped, and an event comes again only with an older cursor.',
        tags: ['events'],
        querystring: schemas.FeedQuery,
        response: responses(
          { 200: Type.Unsafe<FeedPage>(schemas.FeedReply) },
          'cursor_expired',
          'unavailable',
        ),
      },
      // A reader can wait 25 s for events.
      config: { answerWithinMs: 33_000 },
    },
    async (request, reply) => {
      const { after, limit = 100, wait: waitSeconds = 0 } = request.query
      const left = new AbortController()
      reply.raw.once('close', () => left.abort())
      const page = await feed.read({
        after,
        limit,
        waitSeconds,
        signal: left.signal,
        confirm: () => request.confirmClient(),
      })
      reply.type('application/json; charset=utf-8').serializer(toText)
      return page
    },
  )
}

const verifying: FastifyPluginAsyncTypebox = async (app) => {
  app.setErrorHandler(async (error) => {
    throw introspection.toForwarded(toProblem(error))
  })
  app.get(
    '/verify',
    {
      schema: {
        operationId: 'verify',
        summary: 'Verify a request for a proxy',
        description:
          'Forward authentication, for `auth_request` of nginx, Traefik, and Caddy. The proxy passes on the credential and the headers below. A refusal is 401 or 403, with its code in `X-Auth-Error`. A cookie is renewed at most once a minute.',
        tags: ['sessions'],
        headers: schemas.VerifyHeaders,
        querystring: schemas.VerifyQuery,
        response: responsesBy(
          introspection.forwardedStatusOf,
          { 200: schemas.VerifyReply },
          'permission_denied',
          'subscription_inactive',
          'feature_not_in_plan',
        ),
      },
    },
    async ({ session, query }, reply) => {
      introspection.requireRights(session, query)
      return reply.headers(introspection.headersOf(session)).send()
    },
  )
}

export const introspectionRoutes = scopedRoutes(introspecting, 'introspection-routes', [
  'client-guard',
  'scope-guard',
])
export const feedRoutes = scopedRoutes(reading, 'feed-routes', ['scope-guard'])
export const verifyRoutes = scopedRoutes(verifying, 'verify-routes', ['session-guard', 'enrolment-guard'])
