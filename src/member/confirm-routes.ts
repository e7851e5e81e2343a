import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import type { Context } from '../context.ts'
import { limitHeaders } from '../limits/answer.ts'
import { clientOf } from '../limits/client.ts'
import { confirmEmailChange } from './email-change.ts'
import { ConfirmBody, UndoBody, UndoReply } from './schemas.ts'
import { undo } from './undo.ts'

interface Options {
  context: Context
}

/** The links of a change of e-mail and of an undo, which can be followed where nobody is signed in; behind the public guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { context }) => {
  app.post(
    '/auth/email/confirm',
    {
      schema: {
        tags: ['account'],
        operationId: 'confirmEmail',
        summary: 'Change the e-mail address by the token that was mailed to the new one',
        description: 'Links that were mailed to the old one no longer work. Both get a notice.',
        body: ConfirmBody,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const received = { client: clientOf(request), now: context.system.now() }
      const { limit, ...ids } = await confirmEmailChange(context, request.body.token, received)
      Object.assign(request.logContext, ids)
      reply.code(204).headers(limitHeaders(limit))
      return null
    },
  )

  app.post(
    '/auth/undo',
    {
      schema: {
        tags: ['account'],
        operationId: 'undo',
        summary:
          'Take back a first second factor, or another e-mail address, by the token that was mailed about it',
        description:
          'For 72 hours, and only where no second factor proved the change. The account has its former address again, and no password, second factor, session, link or invitation that was there since; a link to choose a password is mailed.',
        body: UndoBody,
        response: { 200: UndoReply },
      },
    },
    async (request, reply) => {
      const received = { client: clientOf(request), now: context.system.now() }
      const { companyId, userId, email, limit } = await undo(context, request.body.token, received)
      Object.assign(request.logContext, { companyId, userId })
      reply.headers(limitHeaders(limit))
      return { companyId, email }
    },
  )
}

export const confirmRoutes = fp(routes, {
  name: 'confirm-routes',
  dependencies: ['public-guard'],
  encapsulate: true,
})
