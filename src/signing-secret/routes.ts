import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Context } from '../http/context.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { actorOf } from '../session/acts.ts'
import { requireRecentAuthentication } from '../session/session.ts'
import { createRefusalBook, type RefusalBook } from './refusals.ts'
import { listRefusals } from './refusals-repository.ts'
import { findSecretStatus } from './repository.ts'
import { RefusalsReply, RegenerateBody, RegenerateReply, StatusReply } from './schemas.ts'
import { createSigningSecrets, regenerate, type SigningSecrets } from './service.ts'

declare module 'fastify' {
  interface FastifyInstance {
    signingSecrets: SigningSecrets
    refusals: RefusalBook
  }
}

async function plugin(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  const onFailure = (cause: unknown) => app.notice('refused events could not be recorded', { cause })
  const refusals = createRefusalBook(context, onFailure)
  app.decorate('signingSecrets', createSigningSecrets(context))
  app.decorate('refusals', refusals)
  app.addHook('onClose', refusals.flush)
}

export const signingSecretPlugin = fp(plugin, { name: 'signing-secrets', dependencies: ['notices'] })

const operation = operationsOf('signing-secret')
const SHOWN_MS = 7 * 86_400_000

const routes: Routes<Context> = async (app, { context }) => {
  const { db, system } = context

  app.post(
    '/auth/webhook-secret/status',
    operation({
      operationId: 'getSigningSecretStatus',
      summary: 'Get signing secret status',
      description: 'Never returns the secret itself. Requires the permission `webhook-secret:manage`.',
      response: { 200: StatusReply },
    }),
    async ({ session }) => {
      const secret = await findSecretStatus(db, session.companyId)
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

  app.get(
    '/auth/webhook-secret/refusals',
    operation({
      operationId: 'listRefusals',
      summary: 'List refused event requests',
      description:
        'Returns the reasons of the last 7 days, summed by minute, reason, and network, latest first, at most 1,000. `previous_secret` is recognized for 24 hours after the secret was replaced. Requires the permission `webhook-secret:manage`.',
      response: { 200: RefusalsReply },
    }),
    async ({ session }) => {
      const found = await listRefusals(db, session.companyId, new Date(system.now() - SHOWN_MS))
      return {
        refusals: found.map(({ firstAt, lastAt, clockSkewSeconds, ...refusal }) => ({
          ...refusal,
          firstAt: firstAt.toISOString(),
          lastAt: lastAt.toISOString(),
          ...(clockSkewSeconds !== null && { clockSkewSeconds }),
        })),
      }
    },
  )

  app.post(
    '/auth/webhook-secret/regenerate',
    operation({
      operationId: 'regenerateSigningSecret',
      summary: 'Create or replace the signing secret',
      description:
        'Once you get the response, no instance accepts signatures of the previous secret. Requires the permission `webhook-secret:manage` and, with a session cookie, recent authentication. With `expectedVersion`, only one of two concurrent replacements succeeds.',
      body: RegenerateBody,
      response: responses({ 200: RegenerateReply }, 'version_conflict', 'reauthentication_required'),
    }),
    async (request) => {
      const { session, body } = request
      if (session.kind === 'cookie') requireRecentAuthentication(request, system.now())
      const actor = actorOf(request, context)
      const { secret, version, hint, ...made } = await regenerate(context, actor, body?.expectedVersion)
      const createdAt = made.createdAt.toISOString()
      const previousInvalidatedAt = version > 1 ? createdAt : null
      return { secret, version, hint: `…${hint}`, createdAt, previousInvalidatedAt }
    },
  )
}

export const signingSecretRoutes = scopedRoutes(routes, 'signing-secret-routes', ['permission-guard'])
