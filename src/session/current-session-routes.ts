import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { toSessionReply } from './replies.ts'
import { SessionReply } from './schemas.ts'

/** Who is signed in; behind the session guard. Also for those whom the policy on second factors holds. */
const routes: FastifyPluginAsyncTypebox = async (app) => {
  app.get(
    '/auth/session',
    {
      schema: {
        operationId: 'getSession',
        summary: 'The session, its user and what they may do now',
        description: 'For an access token or the cookie; a page restores itself with it.',
        tags: ['session'],
        response: { 200: SessionReply },
      },
    },
    async ({ session }) => toSessionReply(session),
  )
}

export const currentSessionRoutes = fp(routes, {
  name: 'current-session-routes',
  dependencies: ['session-guard'],
  encapsulate: true,
})
