import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { NoBody } from '../http/body.ts'
import { addressOf, clientAddress, limitHeaders } from '../http/limits.ts'
import { answers, WITH_BODY, WITH_SESSION } from '../http/openapi.ts'
import { createTurnstile } from '../http/turnstile.ts'
import type { System } from '../system.ts'
import { clearSessionCookie, readSessionCookies, requireSameSite, setSessionCookie } from './cookie.ts'
import {
  LoginBody,
  LoginHeaders,
  LoginReply,
  LogoutQuery,
  RefreshHeaders,
  SessionReply,
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

/** The caller's own session; behind the session guard. */
const ownSession: FastifyPluginAsyncTypebox<Omit<Options, 'config'>> = async (app, { sessions, system }) => {
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
