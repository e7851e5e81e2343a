import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { NoBody } from '../http/body.ts'
import { clientAddress, limitHeaders } from '../http/limits.ts'
import { answers, WITH_BODY, WITH_SESSION } from '../http/openapi.ts'
import type { System } from '../system.ts'
import { RegenerateBody, RegenerateReply, StatusReply } from './schemas.ts'
import type { SigningSecrets } from './service.ts'

interface Options {
  signingSecrets: SigningSecrets
  system: System
}

/** The signing secret, for those who may manage it; behind the permission guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { signingSecrets, system }) => {
  const common = { tags: ['signing-secret'], security: [{ accessToken: [] }, { sessionCookie: [] }] }

  app.post(
    '/auth/webhook-secret/status',
    {
      schema: {
        ...common,
        operationId: 'getSigningSecretStatus',
        summary: 'State of the signing secret; never the secret itself',
        body: NoBody,
        response: answers({ 200: StatusReply }, ...WITH_BODY, ...WITH_SESSION, 'permission_denied'),
      },
    },
    async ({ caller }) => {
      const secret = await signingSecrets.status(caller.company_id)
      return {
        configured: secret !== undefined,
        version: secret?.version ?? null,
        hint: secret ? `…${secret.hint}` : null,
        algorithm: secret ? ('HMAC-SHA256' as const) : null,
        createdAt: secret?.created_at.toISOString() ?? null,
        createdBy: secret ? { id: secret.created_by, email: secret.email } : null,
        lastUsedAt: secret?.last_used_at?.toISOString() ?? null,
      }
    },
  )

  app.post(
    '/auth/webhook-secret/regenerate',
    {
      schema: {
        ...common,
        operationId: 'regenerateSigningSecret',
        summary: 'Replace the signing secret; the old one is invalid at once',
        body: RegenerateBody,
        response: answers(
          { 200: RegenerateReply },
          ...WITH_BODY,
          ...WITH_SESSION,
          'permission_denied',
          'version_conflict',
        ),
      },
    },
    async (request, reply) => {
      const { caller, body } = request
      const result = await signingSecrets.regenerate(
        { companyId: caller.company_id, userId: caller.user_id, ipAddress: clientAddress(request) },
        body?.expectedVersion,
        system.now(),
      )
      reply.headers(limitHeaders(result.state))
      const createdAt = result.createdAt.toISOString()
      return {
        secret: result.secret,
        version: result.version,
        hint: `…${result.hint}`,
        createdAt,
        previousInvalidatedAt: result.hadPrevious ? createdAt : null,
      }
    },
  )
}

export const signingSecretRoutes = fp(routes, {
  name: 'signing-secret-routes',
  dependencies: ['permission-guard'],
  encapsulate: true,
})
