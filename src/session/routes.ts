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
        summary: 'Exchange a refresh token',
        description:
          'Returns a new access token and a new refresh token. A refresh token works once. Send a random `Idempotency-Key` with each refresh, and the same one when you retry: if the response was lost, you get the same refresh token again.',
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
      summary: 'Sign out',
      description:
        'Ends the session, or with `scope=all` all sessions of the user. As soon as it returns, every instance rejects the credentials of the ended sessions.',
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
      summary: 'Get the current session',
      description:
        'Accepts an access token or the cookie. Returns the user and their current permissions, so that a page can restore its state.',
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
      summary: 'List your sessions',
      description:
        'Returns at most 1,000 active sessions, most recently used first, each with the user agent and IP address that started it.',
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
      summary: 'End one of your sessions',
      description:
        'Ending a session other than the current one requires recent authentication. A session of a different user returns 404.',
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
