import { type FastifyPluginAsyncTypebox, Type } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { addressOf, clientAddress, limitHeaders } from '../http/limits.ts'
import { answers, WITH_BODY } from '../http/openapi.ts'
import type { System } from '../system.ts'
import {
  AcceptBody,
  AcceptedReply,
  AcceptReply,
  AccountBody,
  PreviewReply,
  RegisterBody,
  RegisterReply,
  ResetBody,
  TokenBody,
  VerifyReply,
} from './schemas.ts'
import type { Asker, Onboarding } from './service.ts'

interface Options {
  onboarding: Onboarding
  system: System
}

/** What anybody may ask for. A link that was mailed changes nothing when it is opened; what it leads to posts here. */
export const onboardingRoutes: FastifyPluginAsyncTypebox<Options> = async (app, { onboarding, system }) => {
  const common = { tags: ['onboarding'], security: [] }
  const askerOf = (request: FastifyRequest): Asker => ({
    limitAddress: addressOf(request),
    ipAddress: clientAddress(request),
    now: system.now(),
  })

  app.post(
    '/auth/register',
    {
      schema: {
        ...common,
        operationId: 'register',
        summary: 'Open a company; its admin can sign in once the mailed link was followed',
        body: RegisterBody,
        response: answers({ 201: RegisterReply }, ...WITH_BODY),
      },
    },
    async (request, reply) => {
      const { limit, ...ids } = await onboarding.register(request.body, askerOf(request))
      Object.assign(request.facts, ids)
      reply.code(201).headers(limitHeaders(limit))
      return { ...ids, status: 'pending_verification' as const }
    },
  )

  app.post(
    '/auth/verify-email',
    {
      schema: {
        ...common,
        operationId: 'verifyEmail',
        summary: 'Prove an e-mail address by the token that was mailed to it',
        body: TokenBody,
        response: answers({ 200: VerifyReply }, ...WITH_BODY),
      },
    },
    async (request, reply) => {
      const { companyId, limit } = await onboarding.verifyEmail(request.body.token, askerOf(request))
      request.facts.companyId = companyId
      reply.headers(limitHeaders(limit))
      return { companyId, status: 'active' as const }
    },
  )

  const mails = [
    ['/auth/verify-email/resend', 'verify_email', 'resendVerification', 'Mail the verification link anew'],
    ['/auth/password/forgot', 'password_reset', 'forgotPassword', 'Mail a link to choose a new password'],
  ] as const
  for (const [path, kind, operationId, summary] of mails) {
    app.post(
      path,
      {
        schema: {
          ...common,
          operationId,
          summary,
          description: 'The answer is the same whether or not there is such an account.',
          body: AccountBody,
          response: answers({ 202: AcceptedReply }, ...WITH_BODY),
        },
      },
      async (request, reply) => {
        request.facts.companyId = request.body.companyId
        await onboarding.requestMail(kind, request.body, askerOf(request))
        reply.code(202)
        return {}
      },
    )
  }

  app.post(
    '/auth/password/reset',
    {
      schema: {
        ...common,
        operationId: 'resetPassword',
        summary: 'Choose a new password by the mailed token; all sessions of the user end',
        body: ResetBody,
        response: answers({ 204: Type.Null() }, ...WITH_BODY),
      },
    },
    async (request, reply) => {
      const { token, newPassword } = request.body
      const limit = await onboarding.resetPassword(token, newPassword, askerOf(request))
      reply.code(204).headers(limitHeaders(limit))
      return null
    },
  )

  app.post(
    '/auth/invitations/preview',
    {
      schema: {
        ...common,
        operationId: 'previewInvitation',
        summary: 'What an invitation is to; it stays open',
        body: TokenBody,
        response: answers({ 200: PreviewReply }, ...WITH_BODY),
      },
    },
    async (request, reply) => {
      const { invitation, limit } = await onboarding.previewInvitation(request.body.token, askerOf(request))
      reply.headers(limitHeaders(limit))
      return invitation
    },
  )

  app.post(
    '/auth/invitations/accept',
    {
      schema: {
        ...common,
        operationId: 'acceptInvitation',
        summary: 'Become a user of the company that invited',
        body: AcceptBody,
        response: answers({ 201: AcceptReply }, ...WITH_BODY),
      },
    },
    async (request, reply) => {
      const { limit, ...ids } = await onboarding.acceptInvitation(request.body, askerOf(request))
      Object.assign(request.facts, ids)
      reply.code(201).headers(limitHeaders(limit))
      return ids
    },
  )
}
