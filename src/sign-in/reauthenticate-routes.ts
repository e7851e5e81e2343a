import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Context } from '../context.ts'
import { responses } from '../http/responses.ts'
import { limitHeaders } from '../limits/answer.ts'
import { clientOf } from '../limits/client.ts'
import { readSessionCookie, setSessionCookie } from '../session/cookie.ts'
import { toTokenReply } from '../session/replies.ts'
import { RefreshHeaders, TokenReply } from '../session/schemas.ts'
import { beginProofByPasskey, createProofBySecondFactor, proveByPassword } from './reauthentication.ts'
import { ChallengeReply, PasskeyChallengeReply, ReauthenticateBody } from './schemas.ts'

interface Options {
  context: Context
}

/** Recent proof; behind the session guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { context }) => {
  const { config, system } = context
  const countProof = app.limits.perSubject(config.limits.reauthentications, ({ session }) => [
    session.sessionId,
  ])
  const proveBySecondFactor = createProofBySecondFactor(context)
  // Behind the guard, which sets the session, and before the body is read.
  const onRequest = async (request: FastifyRequest) => await countProof(request)

  app.post(
    '/auth/reauthenticate',
    {
      onRequest,
      schema: {
        operationId: 'reauthenticate',
        summary: 'Prove again who you are, for what asks for a recent proof',
        description:
          'Begin with the password. A member with a second factor gets a challenge, and completes it by a second request to this path. A wrong password or code is 400 at `/password`, `/code` or `/response`, since 401 means that the session has ended; a challenge that is over is 400 at `/challenge`. Done: with a cookie the answer is 204 and a new cookie, and the old one is dead. With an access token it is the next pair of tokens, as a refresh gives it: send an `Idempotency-Key`, and the same one when you retry.',
        tags: ['session'],
        headers: RefreshHeaders,
        body: ReauthenticateBody,
        response: responses(
          {
            200: Type.Union([TokenReply, ChallengeReply], {
              description: '`TokenReply` when it is done, `ChallengeReply` when a second factor is asked for',
            }),
            204: Type.Null(),
          },
          'idempotency_conflict',
        ),
      },
    },
    async (request, reply) => {
      const { session, body } = request
      const received = {
        cookie: readSessionCookie(request),
        idempotencyKey: request.headers['idempotency-key'],
        client: clientOf(request),
        now: system.now(),
      }
      const proven =
        'password' in body
          ? await proveByPassword(context, session, body.password, received)
          : await proveBySecondFactor(session, body, received)
      if ('challenge' in proven) return proven
      if ('cookie' in proven) {
        setSessionCookie(reply, proven.cookie)
        reply.code(204)
        return null
      }
      reply.headers(limitHeaders(proven.limit))
      return toTokenReply(proven.session, proven.tokens)
    },
  )

  app.post(
    '/auth/reauthenticate/passkey/options',
    {
      onRequest,
      schema: {
        operationId: 'beginReauthenticationByPasskey',
        summary: 'Begin a recent proof by passkey, without the password',
        description: 'Complete it at `/auth/reauthenticate`.',
        tags: ['session'],
        response: responses({ 200: PasskeyChallengeReply }, 'factor_required'),
      },
    },
    async (request) =>
      await beginProofByPasskey(context, request.session, {
        client: clientOf(request),
        now: system.now(),
      }),
  )
}

export const reauthenticateRoutes = fp(routes, {
  name: 'reauthenticate-routes',
  dependencies: ['session-guard'],
  encapsulate: true,
})
