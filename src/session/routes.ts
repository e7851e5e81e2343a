import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { NoBody } from '../http/body.ts'
import { addressOf, clientAddress, limitHeaders } from '../http/limits.ts'
import { answers, WITH_BODY, WITH_SESSION } from '../http/openapi.ts'
import { createTurnstile } from '../http/turnstile.ts'
import type { System } from '../system.ts'
import type { Account } from './account.ts'
import { clearSessionCookie, readSessionCookies, requireSameSite, setSessionCookie } from './cookie.ts'
import {
  LoginBody,
  LoginHeaders,
  LoginReply,
  LogoutQuery,
  PasswordChangeBody,
  RefreshHeaders,
  SessionParams,
  SessionReply,
  SessionsReply,
  TokenReply,
} from './schemas.ts'
import type { IssuedTokens, Sessions, SessionWithAccount } from './service.ts'
import { readBearer } from './session-guard.ts'

interface Options {
  config: Config
  sessions: Sessions
  system: System
}

/** Sign-ins that are taken on in one turn of the event loop, and those that may wait for theirs. */
const SIGN_INS_PER_TURN = 4
const MAX_SIGN_INS_WAITING = 1_000

/** Sign-in, and refresh, whose credential is the refresh token itself. */
export const signInRoutes: FastifyPluginAsyncTypebox<Options> = async (app, { config, sessions, system }) => {
  const turnstile = createTurnstile(SIGN_INS_PER_TURN, MAX_SIGN_INS_WAITING)
  app.post(
    '/auth/login',
    {
      // In this order: a crowd comes in by turns, and who then finds it full is refused before anything is
      // read. What never becomes an attempt, for its form, is counted too.
      onRequest: [turnstile, async () => sessions.refuseIfCrowded(), app.limits.anonymous],
      schema: {
        operationId: 'login',
        summary: 'Sign in',
        description:
          'With `X-Session-Mode: cookie` the answer sets the session cookie and carries no tokens.',
        tags: ['authentication'],
        security: [],
        headers: LoginHeaders,
        body: LoginBody,
        response: answers(
          { 200: LoginReply },
          ...WITH_BODY,
          'invalid_credentials',
          'email_not_verified',
          'cross_site_request',
        ),
      },
    },
    async (request, reply) => {
      const mode = request.headers['x-session-mode'] ?? 'token'
      if (mode === 'cookie') requireSameSite(request, config)
      const { session, credential, limit } = await sessions.signIn({
        ...request.body,
        mode,
        formerCookie: mode === 'cookie' ? readSessionCookies(request)[0] : undefined,
        limitAddress: addressOf(request),
        ipAddress: clientAddress(request),
        userAgent: request.headers['user-agent'],
        now: system.now(),
      })
      Object.assign(request.facts, factsOf(session))
      reply.headers(limitHeaders(limit))
      if ('tokens' in credential) return toTokenReply(session, credential.tokens)
      setSessionCookie(reply, credential.cookie)
      return toSessionReply(session)
    },
  )

  app.post(
    '/auth/refresh',
    {
      schema: {
        operationId: 'refresh',
        summary: 'Spend the refresh token for its successor',
        description:
          'Send a random `Idempotency-Key` with every refresh, and the same one when you retry: a lost answer can then be had again.',
        tags: ['authentication'],
        security: [{ refreshToken: [] }],
        headers: RefreshHeaders,
        body: NoBody,
        response: answers(
          { 200: TokenReply },
          ...WITH_BODY,
          'missing_credentials',
          'invalid_token',
          'token_expired',
          'session_ended',
          'refresh_token_reused',
          'idempotency_conflict',
        ),
      },
    },
    async (request, reply) => {
      const now = system.now()
      const claims = app.tokens.verifyRefresh(readBearer(request), now)
      Object.assign(request.facts, { companyId: claims.cid, userId: claims.sub, sessionId: claims.sid })
      const { session, tokens, limit } = await sessions.refresh(claims, {
        idempotencyKey: request.headers['idempotency-key'],
        ipAddress: clientAddress(request),
        now,
      })
      reply.headers(limitHeaders(limit))
      return toTokenReply(session, tokens)
    },
  )
}

interface OwnOptions {
  sessions: Sessions
  account: Account
  system: System
}

/** The caller's own sessions and password; behind the session guard. */
const ownSession: FastifyPluginAsyncTypebox<OwnOptions> = async (app, { sessions, account, system }) => {
  const security = [{ accessToken: [] }, { sessionCookie: [] }]

  app.get(
    '/auth/session',
    {
      schema: {
        operationId: 'getSession',
        summary: 'The session, its user and what they may do now',
        tags: ['session'],
        security,
        response: answers({ 200: SessionReply }, ...WITH_SESSION),
      },
    },
    async ({ caller }) => toSessionReply(caller),
  )

  app.post(
    '/auth/logout',
    {
      schema: {
        operationId: 'logout',
        summary: 'End the session, or with `scope=all` all sessions of the user',
        tags: ['authentication'],
        security,
        querystring: LogoutQuery,
        body: NoBody,
        response: answers({ 204: Type.Null() }, ...WITH_BODY, ...WITH_SESSION),
      },
    },
    async (request, reply) => {
      const { caller, query } = request
      await sessions.signOut(caller, {
        scope: query.scope ?? 'session',
        ipAddress: clientAddress(request),
        now: system.now(),
      })
      if (caller.kind === 'cookie') clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )

  const callerOf = (request: FastifyRequest) => ({
    ipAddress: clientAddress(request),
    limitAddress: addressOf(request),
    now: system.now(),
  })

  app.get(
    '/auth/sessions',
    {
      schema: {
        operationId: 'listSessions',
        summary: "The user's live sessions, those used last first; at most 1 000",
        tags: ['session'],
        security,
        response: answers({ 200: SessionsReply }, ...WITH_SESSION),
      },
    },
    async ({ caller }) => {
      const rows = await account.listSessions(caller, system.now())
      return {
        sessions: rows.map((row) => ({
          id: row.session_id,
          kind: row.kind,
          createdAt: row.created_at.toISOString(),
          lastSeenAt: row.issued_at.toISOString(),
          userAgent: row.user_agent,
          ipAddress: row.ip_address,
          current: row.session_id === caller.session_id,
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
        tags: ['session'],
        security,
        params: SessionParams,
        body: NoBody,
        response: answers({ 204: Type.Null() }, ...WITH_BODY, ...WITH_SESSION, 'not_found'),
      },
    },
    async (request, reply) => {
      const { caller } = request
      const id = request.params.id.toLowerCase()
      await account.endSession(caller, id, callerOf(request))
      if (caller.kind === 'cookie' && caller.session_id === id) clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )

  app.post(
    '/auth/password/change',
    {
      schema: {
        operationId: 'changePassword',
        summary: "Change the password; the user's other sessions end",
        tags: ['session'],
        security,
        body: PasswordChangeBody,
        response: answers({ 204: Type.Null() }, ...WITH_BODY, ...WITH_SESSION),
      },
    },
    async (request, reply) => {
      const limit = await account.changePassword(request.caller, request.body, callerOf(request))
      reply.code(204).headers(limitHeaders(limit))
      return null
    },
  )
}

export const ownSessionRoutes = fp(ownSession, {
  name: 'own-session-routes',
  dependencies: ['session-guard'],
  encapsulate: true,
})

function factsOf(session: SessionWithAccount) {
  return { companyId: session.company_id, userId: session.user_id, sessionId: session.session_id }
}

function toSessionReply(session: SessionWithAccount) {
  return {
    session: {
      id: session.session_id,
      createdAt: session.created_at.toISOString(),
      expiresAt: session.expires_at.toISOString(),
    },
    user: { id: session.user_id, email: session.email, name: session.name, role: session.role },
    subscription: {
      status: session.subscription_status,
      plan: session.plan,
      currentPeriodEnd: session.current_period_end.toISOString(),
    },
    planFeatures: session.features,
    permissions: session.permissions,
    accessContext: {
      companyId: session.company_id,
      companyName: session.company_name,
      role: session.role,
      assignments: session.assignments,
    },
  }
}

function toTokenReply(session: SessionWithAccount, tokens: IssuedTokens) {
  return { ...tokens, tokenType: 'Bearer' as const, ...toSessionReply(session) }
}
