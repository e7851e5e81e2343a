import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { toProblem } from '../http/to-problem.ts'
import { headersOf, requireRights, toForwarded } from './forwarding.ts'
import { VerifyQuery } from './schemas.ts'

/** The routes of the platform's own listener, in plugins of their own, since each stands behind another credential. */

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

export const verifyRoutes = scopedRoutes(verifying, 'verify-routes', ['session-guard', 'enrolment-guard'])
