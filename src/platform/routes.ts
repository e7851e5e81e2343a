import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { invalidField } from '../errors.ts'
import { mediaType } from '../http/body.ts'
import type { Context } from '../http/context.ts'
import { scopedRoutes } from '../http/operations.ts'
import { responses, responsesBy } from '../http/responses.ts'
import { toProblem } from '../http/to-problem.ts'
import type { SessionLookUp } from '../session/look-up.ts'
import { forwardedStatusOf, headersOf, requireRights, toForwarded } from './forwarding.ts'
import { createIntrospection, toOAuth } from './introspection.ts'
import { IntrospectBody, IntrospectReply, VerifyHeaders, VerifyQuery, VerifyReply } from './schemas.ts'

/** The routes of the platform's own listener, in plugins of their own, since each stands behind another credential. */

interface Options {
  context: Context
  sessions: SessionLookUp
}

const FORM_BYTES = 64 * 1024
const FORM_TYPE = mediaType('application/x-www-form-urlencoded')

/** Introspection; behind the client guard, for its scope. */
const introspecting: FastifyPluginAsyncTypebox<Options> = async (app, { context, sessions }) => {
  const introspect = createIntrospection({ ...context, sessions })
  // Of the guards too.
  app.setErrorHandler(async (error) => {
    throw toOAuth(toProblem(error))
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', async (request: FastifyRequest) => {
    const bytes = await request.readBody(FORM_TYPE)
    const [token, ...others] = new URLSearchParams(bytes?.toString()).getAll('token')
    if (others.length > 0) throw invalidField('token', 'must come once')
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
        body: IntrospectBody,
        response: responses({ 200: IntrospectReply }),
      },
    },
    async ({ body, logContext }) => {
      const { reply, found } = await introspect(body.token, context.system.now())
      Object.assign(logContext, found)
      return reply
    },
  )
}

/** Forward authentication; behind the session guard and that of second factors. */
const verifying: FastifyPluginAsyncTypebox = async (app) => {
  // Of the guards too.
  app.setErrorHandler(async (error) => {
    throw toForwarded(toProblem(error))
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
        headers: VerifyHeaders,
        querystring: VerifyQuery,
        response: responsesBy(
          forwardedStatusOf,
          { 200: VerifyReply },
          'permission_denied',
          'subscription_inactive',
          'feature_not_in_plan',
        ),
      },
    },
    async ({ session, query }, reply) => {
      requireRights(session, query)
      return reply.headers(headersOf(session)).send()
    },
  )
}

export const introspectionRoutes = scopedRoutes(introspecting, 'introspection-routes', [
  'client-guard',
  'scope-guard',
])
export const verifyRoutes = scopedRoutes(verifying, 'verify-routes', ['session-guard', 'enrolment-guard'])
