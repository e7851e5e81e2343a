import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { responses } from '../http/responses.ts'
import { ipAddressOf } from '../limits/client.ts'
import type { System } from '../system.ts'
import { clearSessionCookie } from './cookie.ts'
import type { OwnSessions } from './own-sessions.ts'
import { SessionParams, SessionsReply } from './schemas.ts'
import { requireRecentProof } from './session.ts'

interface Options {
  system: System
  ownSessions: OwnSessions
}

const tags = ['session']

/** The user's own sessions; behind the session guard and that of second factors. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { system, ownSessions }) => {
  app.get(
    '/auth/sessions',
    {
      schema: {
        operationId: 'listSessions',
        summary: "The user's live sessions, those used last first; at most 1 000",
        description: 'With the browser or program, and the IP address, that opened each.',
        tags,
        response: { 200: SessionsReply },
      },
    },
    async ({ session }) => {
      const found = await ownSessions.list(session, system.now())
      return {
        sessions: found.map(({ createdAt, lastSeenAt, ...one }) => ({
          ...one,
          createdAt: createdAt.toISOString(),
          lastSeenAt: lastSeenAt.toISOString(),
          current: one.id === session.sessionId,
        })),
      }
    },
  )

  app.delete(
    '/auth/sessions/:id',
    {
      schema: {
        operationId: 'endSession',
        summary: "End one of the user's own sessions",
        description:
          'Another one than that which asks needs a recent proof. A session of somebody else is answered like one that does not exist.',
        tags,
        params: SessionParams,
        response: responses({ 204: Type.Null() }, 'not_found', 'reauthentication_required'),
      },
    },
    async (request, reply) => {
      const { session } = request
      const id = request.params.id.toLowerCase()
      if (id !== session.sessionId) requireRecentProof(request, system.now())
      await ownSessions.end(session, id, { ipAddress: ipAddressOf(request), now: system.now() })
      if (session.kind === 'cookie' && session.sessionId === id) clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )
}

export const ownSessionRoutes = fp(routes, {
  name: 'own-session-routes',
  dependencies: ['session-guard', 'enrolment-guard'],
  encapsulate: true,
})
