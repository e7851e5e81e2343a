import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { AcceptedReply } from '../http/fields.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { receivedOf } from '../limits/client.ts'
import { actorOf } from '../session/acts.ts'
import { requireRecentAuthentication } from '../session/session.ts'
import { changeOwnName, changePassword, confirmEmailChange, requestEmailChange, undo } from './account.ts'
import * as schemas from './schemas.ts'

const operation = operationsOf('account')

const account: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/password/change',
    operation({
      operationId: 'changePassword',
      summary: "Change the password; the user's other sessions end",
      description: 'Mailed links to reset the password no longer work after it.',
      tags: ['session'],
      body: schemas.PasswordChangeBody,
      response: responses({ 204: Type.Null() }, 'permission_denied'),
    }),
    async (request, reply) => {
      await changePassword(context, actorOf(request, context), request.body)
      reply.code(204)
      return null
    },
  )

  app.patch(
    '/auth/account',
    operation({
      operationId: 'changeAccount',
      summary: 'Change your own name',
      description: 'It is in the next answer on every instance.',
      body: schemas.AccountBody,
      response: { 200: schemas.AccountReply },
    }),
    async (request) => {
      const { userId: id, email, role } = request.session
      const name = await changeOwnName(context, actorOf(request, context), request.body.name)
      return { id, email, name, role }
    },
  )

  app.post(
    '/auth/email/change',
    operation({
      operationId: 'changeEmail',
      summary: 'Ask for another e-mail address; a link to it confirms the change',
      description:
        'Needs a recent proof, and without a second factor the code of `POST /auth/second-factors/mail-code` with `{"for":"email"}`. Nothing changes until the link is followed. A newer request, another password and a disabled account make it void. If no second factor proved it, the mail that tells the former address has a link to undo it.',
      body: schemas.EmailChangeBody,
      response: responses({ 202: AcceptedReply }, 'reauthentication_required', 'permission_denied'),
    }),
    async (request, reply) => {
      const actor = actorOf(request, context)
      requireRecentAuthentication(request, actor.now)
      await requestEmailChange(context, actor, request.body)
      reply.code(202)
      return {}
    },
  )
}

/** Emailed links that confirm or undo a change. They work without signing in. */
const links: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/email/confirm',
    operation({
      operationId: 'confirmEmail',
      summary: 'Change the e-mail address by the token that was mailed to the new one',
      description: 'Links that were mailed to the old one no longer work. Both get a notice.',
      body: schemas.ConfirmBody,
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      const ids = await confirmEmailChange(context, request.body.token, receivedOf(request, context))
      Object.assign(request.logContext, ids)
      reply.code(204)
      return null
    },
  )

  app.post(
    '/auth/undo',
    operation({
      operationId: 'undo',
      summary:
        'Take back a first second factor, or another e-mail address, by the token that was mailed about it',
      description:
        'For 72 hours, and only where no second factor proved the change. The account has its former address again, and no password, second factor, session, link or invitation that was there since; a link to choose a password is mailed. `additions` lists what the account added to the company since then, and the undo does not remove.',
      body: schemas.UndoBody,
      response: { 200: schemas.UndoReply },
    }),
    async (request) => {
      const received = receivedOf(request, context)
      const { companyId, userId, email, additions } = await undo(context, request.body.token, received)
      Object.assign(request.logContext, { companyId, userId })
      const { signingSecret: secret } = additions
      const signingSecret = secret && { ...secret, createdAt: secret.createdAt.toISOString() }
      return { companyId, email, additions: { ...additions, signingSecret } }
    },
  )
}

export const accountRoutes = scopedRoutes(account, 'account-routes', ['session-guard', 'enrolment-guard'])
export const accountLinkRoutes = scopedRoutes(links, 'account-link-routes', ['public-guard'])
