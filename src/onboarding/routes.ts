import { Type } from '@fastify/type-provider-typebox'
import { PLATFORM } from '../audit/entry.ts'
import type { Context } from '../http/context.ts'
import { AcceptedReply } from '../http/fields.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { receivedOf } from '../limits/client.ts'
import * as schemas from './schemas.ts'
import * as onboarding from './service.ts'

/** Opening an emailed link changes nothing: its page posts the token. */
const routes: Routes<Context> = async (app, options) => {
  await app.register(registration, options)
  await app.register(mailedLinks, options)
  await app.register(invitations, options)
}

const operation = operationsOf('onboarding')

const registration: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/register',
    operation({
      operationId: 'register',
      summary: 'Open a company; its admin can sign in once the mailed link was followed',
      description:
        'The company starts in trial on the plan `growth`. Each registration opens a company of its own.',
      body: schemas.RegisterBody,
      response: { 201: schemas.RegisterReply },
    }),
    async (request, reply) => {
      const ids = await onboarding.register(context, request.body, receivedOf(request, context))
      Object.assign(request.logContext, ids)
      reply.code(201)
      return { ...ids, status: 'pending_verification' as const }
    },
  )

  app.post(
    '/auth/verify-email',
    operation({
      operationId: 'verifyEmail',
      summary: 'Prove an e-mail address by the token that was mailed to it',
      description:
        'A token that was used, has lapsed, or was replaced by a newer one is answered 400 at `/token`.',
      body: schemas.VerifyBody,
      response: { 200: schemas.VerifyReply },
    }),
    async (request) => {
      const verified = await onboarding.verifyEmail(context, request.body.token, receivedOf(request, context))
      request.logContext.companyId = verified.companyId
      return { ...verified, status: 'active' as const }
    },
  )
}

const mailedLinks: Routes<Context> = async (app, { context }) => {
  const mails = [
    ['/auth/verify-email/resend', 'verify_email', 'resendVerification', 'Mail the verification link again'],
    ['/auth/password/forgot', 'password_reset', 'forgotPassword', 'Mail a link to choose a new password'],
  ] as const
  for (const [path, kind, operationId, summary] of mails) {
    app.post(
      path,
      operation({
        operationId,
        summary,
        description: 'The answer is the same whether or not there is such an account.',
        body: schemas.AccountBody,
        response: { 202: AcceptedReply },
      }),
      async (request, reply) => {
        const { companyId } = request.body
        if (companyId !== undefined) request.logContext.companyId = companyId
        await onboarding.requestMail(context, kind, request.body, receivedOf(request, context))
        reply.code(202)
        return {}
      },
    )
  }

  app.post(
    '/auth/companies/remind',
    operation({
      operationId: 'remindOfCompanies',
      summary: 'Mail the names of the companies to which an e-mail address belongs, with links to sign in',
      description: 'The answer is the same whether or not there are any; without one, no mail is sent.',
      body: schemas.RemindBody,
      response: { 202: AcceptedReply },
    }),
    async (request, reply) => {
      const account = { companyId: PLATFORM, email: request.body.email }
      await onboarding.requestMail(context, 'companies', account, receivedOf(request, context))
      reply.code(202)
      return {}
    },
  )

  app.post(
    '/auth/password/reset/preview',
    operation({
      operationId: 'previewReset',
      summary: 'Show whose password a mailed link resets, before it is chosen',
      description: 'The link stays valid. A token that no longer works is answered 400 at `/token`.',
      body: schemas.ResetPreviewBody,
      response: { 200: schemas.ResetPreviewReply },
    }),
    async (request) => onboarding.previewReset(context, request.body.token, receivedOf(request, context)),
  )

  app.post(
    '/auth/password/reset',
    operation({
      operationId: 'resetPassword',
      summary: 'Choose a new password by the mailed token; all sessions of the user end',
      description: 'It also proves the e-mail. A token that no longer works is answered 400 at `/token`.',
      body: schemas.ResetBody,
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      const ids = await onboarding.resetPassword(context, request.body, receivedOf(request, context))
      Object.assign(request.logContext, ids)
      reply.code(204)
      return null
    },
  )
}

const invitations: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/invitations/preview',
    operation({
      operationId: 'previewInvitation',
      summary: 'What an invitation is to; it stays open',
      description: 'For the page that asks the invited person for a name and a password.',
      body: schemas.PreviewBody,
      response: { 200: schemas.PreviewReply },
    }),
    async (request) =>
      onboarding.previewInvitation(context, request.body.token, receivedOf(request, context)),
  )

  app.post(
    '/auth/invitations/accept',
    operation({
      operationId: 'acceptInvitation',
      summary: 'Become a user of the company that invited',
      description: 'The e-mail counts as verified, so the user can sign in at once.',
      body: schemas.AcceptBody,
      response: responses({ 201: schemas.AcceptReply }, 'quota_reached'),
    }),
    async (request, reply) => {
      const member = await onboarding.acceptInvitation(context, request.body, receivedOf(request, context))
      const { companyId, userId } = member
      Object.assign(request.logContext, { companyId, userId })
      reply.code(201)
      return member
    },
  )
}

export const onboardingRoutes = scopedRoutes(routes, 'onboarding-routes', ['public-guard'])
