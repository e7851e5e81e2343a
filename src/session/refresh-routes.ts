import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { responses } from '../http/responses.ts'
import { limitHeaders } from '../limits/answer.ts'
import { ipAddressOf } from '../limits/client.ts'
import type { System } from '../system.ts'
import { readBearer } from './credential.ts'
import { toTokenReply } from './replies.ts'
import type { Refresh } from './rotation.ts'
import { RefreshHeaders, TokenReply } from './schemas.ts'

interface Options {
  system: System
  refresh: Refresh
}

/** Refresh. The credential is the refresh token; one statement checks and rotates it. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { system, refresh }) => {
  app.post(
    '/auth/refresh',
    {
      config: { countedAs: 'refreshes' },
      schema: {
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
      },
    },
    async (request, reply) => {
      const now = system.now()
      const claims = app.tokens.verifyRefresh(readBearer(request), now)
      Object.assign(request.logContext, { companyId: claims.cid, userId: claims.sub, sessionId: claims.sid })
      const { session, tokens, limit } = await refresh(claims, {
        idempotencyKey: request.headers['idempotency-key'],
        ipAddress: ipAddressOf(request),
        now,
      })
      reply.headers(limitHeaders(limit))
      return toTokenReply(session, tokens)
    },
  )
}

export const refreshRoutes = fp(routes, {
  name: 'refresh-routes',
  dependencies: ['tokens'],
  encapsulate: true,
})
