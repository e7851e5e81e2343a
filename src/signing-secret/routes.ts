import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { responses } from '../http/responses.ts'
import { limitHeaders } from '../limits/answer.ts'
import { ipAddressOf } from '../limits/client.ts'
import type { System } from '../system.ts'
import { RegenerateBody, RegenerateReply, StatusReply } from './schemas.ts'
import type { SigningSecrets } from './service.ts'

interface Options {
  signingSecrets: SigningSecrets
  system: System
}

/** Status and regeneration of the signing secret; behind the permission guard. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { signingSecrets, system }) => {
  const tags = ['signing-secret']

  app.post(
    '/auth/webhook-secret/status',
    {
      schema: {
        tags,
        operationId: 'getSigningSecretStatus',
        summary: 'State of the signing secret; never the secret itself',
        description: 'Needs the permission `webhook-secret:manage`.',
        response: { 200: StatusReply },
      },
    },
    async ({ session }) => {
      const secret = await signingSecrets.status(session.companyId)
      return {
        configured: secret !== undefined,
        version: secret?.version ?? null,
        hint: secret ? `…${secret.hint}` : null,
        algorithm: secret ? ('HMAC-SHA256' as const) : null,
        createdAt: secret?.createdAt.toISOString() ?? null,
        createdBy: secret ? { id: secret.createdBy, email: secret.email } : null,
        lastUsedAt: secret?.lastUsedAt?.toISOString() ?? null,
      }
    },
  )

  app.post(
    '/auth/webhook-secret/regenerate',
    {
      schema: {
        tags,
        operationId: 'regenerateSigningSecret',
        summary: 'Replace the signing secret; the old one is invalid at once',
        description:
          'Needs the permission `webhook-secret:manage`. From this answer on, no instance accepts a signature of the old secret. With `expectedVersion`, of two who replace it at once one is refused.',
        body: RegenerateBody,
        response: responses({ 200: RegenerateReply }, 'version_conflict'),
      },
    },
    async (request, reply) => {
      const { session, body } = request
      const result = await signingSecrets.regenerate({
        companyId: session.companyId,
        userId: session.userId,
        ipAddress: ipAddressOf(request),
        expectedVersion: body?.expectedVersion,
        now: system.now(),
      })
      reply.headers(limitHeaders(result.limit))
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
