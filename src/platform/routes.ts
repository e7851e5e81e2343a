import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import type { Context } from '../context.ts'
import { invalidField } from '../errors.ts'
import { mediaType } from '../http/body.ts'
import { scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { toProblem } from '../http/to-problem.ts'
import type { SessionLookUp } from '../session/look-up.ts'
import { headersOf, requireRights, toForwarded } from './forwarding.ts'
import { createIntrospection, toOAuth } from './introspection.ts'
import { IntrospectBody, IntrospectReply, VerifyQuery } from './schemas.ts'

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
      schema: { body: IntrospectBody, response: responses({ 200: IntrospectReply }) },
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
        querystring: VerifyQuery,
        response: responses({}, 'permission_denied', 'subscription_inactive', 'feature_not_in_plan'),
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
