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
      summary: 'Register a company',
      description:
        'Creates a company on a trial of the `growth` plan, with its first admin. The admin can sign in after confirming the emailed link. Each registration creates a new company.',
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
      summary: 'Verify an email address',
      description:
        'Confirms the email with the token that was sent to it. A token that was used, has expired, or was replaced returns 400 at `/token`.',
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
    ['/auth/verify-email/resend', 'verify_email', 'resendVerification', 'Resend the verification email'],
    ['/auth/password/forgot', 'password_reset', 'forgotPassword', 'Request a password reset'],
  ] as const
  for (const [path, kind, operationId, summary] of mails) {
    app.post(
      path,
      {
        ...(kind === 'password_reset' && { config: { admitsClientIp: true } }),
        ...operation({
          operationId,
          summary,
          description:
            'Emails a link if the account exists. The response is always the same, so that it reveals nothing about accounts.',
          body: schemas.AccountBody,
          response: { 202: AcceptedReply },
        }),
      },
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
      summary: 'Request a list of your companies',
      description:
        'Emails the names of the companies that the email belongs to, with links to sign in. If there are none, no email is sent. The response is always the same.',
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
      summary: 'Preview a password reset',
      description:
        'Returns the account whose password the emailed link resets. The link stays valid. A token that no longer works returns 400 at `/token`.',
      body: schemas.ResetPreviewBody,
      response: { 200: schemas.ResetPreviewReply },
    }),
    async (request) => onboarding.previewReset(context, request.body.token, receivedOf(request, context)),
  )

  app.post(
    '/auth/password/reset',
    operation({
      operationId: 'resetPassword',
      summary: 'Reset a password',
      description:
        'Sets a new password with the emailed token. It also verifies the email, ends all sessions of the user, and withdraws the invitations that the user sent. A token that no longer works returns 400 at `/token`.',
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
      summary: 'Preview an invitation',
      description: 'Returns the company and role that the invitation offers. The invitation stays valid.',
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
      summary: 'Accept an invitation',
      description: 'Creates the user. The email counts as verified, so the user can sign in immediately.',
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
