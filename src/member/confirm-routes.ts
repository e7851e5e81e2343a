import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { limitHeaders } from '../limits/answer.ts'
import { clientOf } from '../limits/client.ts'
import type { Context } from './acting.ts'
import { confirmEmailChange } from './email-change.ts'
import { ConfirmBody } from './schemas.ts'

interface Options {
  context: Context
}

/** The link of a change of e-mail, which can be followed where nobody is signed in; behind the public guard. */
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
      const limit = await confirmEmailChange(context, request.body.token, received)
      reply.code(204).headers(limitHeaders(limit))
      return null
    },
  )
}

export const confirmRoutes = fp(routes, {
  name: 'confirm-routes',
  dependencies: ['public-guard'],
  encapsulate: true,
})
