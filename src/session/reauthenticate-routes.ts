import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { responses } from '../http/responses.ts'
import { limitHeaders } from '../limits/answer.ts'
import { clientOf } from '../limits/client.ts'
import type { System } from '../system.ts'
import { readSessionCookie, setSessionCookie } from './cookie.ts'
import type { Reauthenticate } from './reauthentication.ts'
import { toTokenReply } from './replies.ts'
import { ReauthenticateBody, RefreshHeaders, TokenReply } from './schemas.ts'

interface Options {
  config: Config
  system: System
  reauthenticate: Reauthenticate
}

/** Recent proof; behind the session guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { config, system, reauthenticate }) => {
  const countProof = app.limits.perSubject(config.limits.reauthentications, ({ session }) => [
    session.sessionId,
  ])
  app.post(
    '/auth/reauthenticate',
    {
      // Behind the guard, which sets the session, and before the body is read.
      onRequest: async (request) => await countProof(request),
      schema: {
        operationId: 'reauthenticate',
        summary: 'Prove again who you are, for what asks for a recent proof',
        description:
          'With a cookie the answer is 204 and a new cookie, and the old one is dead. With an access token it is the next pair of tokens, as a refresh gives it: send an `Idempotency-Key`, and the same one when you retry.',
        tags: ['session'],
        headers: RefreshHeaders,
        body: ReauthenticateBody,
        response: responses({ 200: TokenReply, 204: Type.Null() }, 'idempotency_conflict'),
      },
    },
    async (request, reply) => {
      const proven = await reauthenticate(request.session, {
        ...request.body,
        cookie: readSessionCookie(request),
        idempotencyKey: request.headers['idempotency-key'],
        client: clientOf(request),
        now: system.now(),
      })
      if ('cookie' in proven) {
        setSessionCookie(reply, proven.cookie)
        reply.code(204)
        return null
      }
      reply.headers(limitHeaders(proven.limit))
      return toTokenReply(proven.session, proven.tokens)
    },
  )
}

export const reauthenticateRoutes = fp(routes, {
  name: 'reauthenticate-routes',
  dependencies: ['session-guard'],
  encapsulate: true,
})
