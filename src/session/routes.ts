import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { idsOf } from '../token/claims.ts'
import { actorOf } from './acts.ts'
import { clearSessionCookie, readBearer } from './credential.ts'
import { endOwnSession, logOut } from './logout.ts'
import { listSessions } from './repository.ts'
import { createRefresh } from './rotation.ts'
import {
  LogoutQuery,
  RefreshHeaders,
  SessionParams,
  SessionReply,
  SessionsReply,
  TokenReply,
} from './schemas.ts'
import { requireRecentAuthentication, toSessionReply, toTokenReply } from './session.ts'

const operation = operationsOf('session')

const refreshing: Routes<Context> = async (app, { context }) => {
  const refresh = createRefresh(context)
  app.post(
    '/auth/refresh',
    {
      config: { countedAs: 'refreshes' },
      ...operation({
        operationId: 'refresh',
        summary: 'Exchange the refresh token for its successor',
        description:
          'Send a random `Idempotency-Key` with every refresh, and the same one when you retry: a lost answer can then be had again.',
        tags: ['authentication'],
        security: [{ refreshToken: [] }],
        headers: RefreshHeaders,
        response: responses(
          { 200: TokenReply },
          'missing_credentials',
          'invalid_token',
          'token_expired',
          'session_ended',
          'refresh_token_reused',
          'idempotency_conflict',
        ),
      }),
    },
    async (request) => {
      const now = context.system.now()
      const claims = app.tokens.verifyRefresh(readBearer(request), now)
      Object.assign(request.logContext, idsOf(claims))
      const { session, tokens, limit } = await refresh(claims, {
        idempotencyKey: request.headers['idempotency-key'],
        ipAddress: request.ipAddress,
        now,
      })
      request.limit = limit
      return toTokenReply(session, tokens)
    },
  )
}

const loggingOut: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/logout',
    operation({
      operationId: 'logout',
      summary: 'End the session, or with `scope=all` all sessions of the user',
      description: 'After the answer, no instance accepts a credential of the session.',
      tags: ['authentication'],
      querystring: LogoutQuery,
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      const { credential, query, logContext } = request
      const { ipAddress } = request
      const scope = query.scope === 'all' ? 'all' : 'session'
      Object.assign(
        logContext,
        await logOut(context, credential, { scope, ipAddress, now: context.system.now() }),
      )
      if ('cookie' in credential) clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )
}

/** Members whom the policy on second factors blocks can call it. */
const current: Routes<Context> = async (app) => {
  app.get(
    '/auth/session',
    operation({
      operationId: 'getSession',
      summary: 'The session, its user and what they may do now',
      description: 'For an access token or the cookie; a page restores itself with it.',
      response: { 200: SessionReply },
    }),
    async ({ session }) => toSessionReply(session),
  )
}

const own: Routes<Context> = async (app, { context }) => {
  const { system } = context
  app.get(
    '/auth/sessions',
    operation({
      operationId: 'listSessions',
      summary: "The user's live sessions, those used last first; at most 1 000",
      description: 'With the browser or program, and the IP address, that opened each.',
      response: { 200: SessionsReply },
    }),
    async ({ session }) => {
      const { companyId, userId } = session
      const found = await listSessions(context.db, companyId, userId, new Date(system.now()))
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
    operation({
      operationId: 'endSession',
      summary: "End one of the user's own sessions",
      description:
        'Another one than that which asks needs a recent proof. A session of somebody else is answered like one that does not exist.',
      params: SessionParams,
      response: responses({ 204: Type.Null() }, 'not_found', 'reauthentication_required'),
    }),
    async (request, reply) => {
      const { session } = request
      const id = request.params.id.toLowerCase()
      if (id !== session.sessionId) requireRecentAuthentication(request, system.now())
      await endOwnSession(context, actorOf(request, context), id)
      if (session.kind === 'cookie' && session.sessionId === id) clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )
}

export const refreshRoutes = scopedRoutes(refreshing, 'refresh-routes', ['tokens'])
export const logoutRoutes = scopedRoutes(loggingOut, 'logout-routes', ['credential-guard'])
export const currentSessionRoutes = scopedRoutes(current, 'current-session-routes', ['session-guard'])
export const ownSessionRoutes = scopedRoutes(own, 'own-session-routes', ['session-guard', 'enrolment-guard'])
