import type { Context } from '../http/context.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { receivedOf } from '../limits/client.ts'
import { requireRecentAuthentication } from '../session/session.ts'
import { RefusalsReply, RegenerateBody, RegenerateReply, StatusReply } from './schemas.ts'

const operation = operationsOf('signing-secret')

const routes: Routes<Context> = async (app, { context }) => {
  const { system } = context
  const { signingSecrets, refusals } = app

  app.post(
    '/auth/webhook-secret/status',
    operation({
      operationId: 'getSigningSecretStatus',
      summary: 'State of the signing secret; never the secret itself',
      description: 'Needs the permission `webhook-secret:manage`.',
      response: { 200: StatusReply },
    }),
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

  app.get(
    '/auth/webhook-secret/refusals',
    operation({
      operationId: 'listRefusals',
      summary: "Why the company's events were refused in the last 7 days",
      description:
        'Summed up by minute, reason and network, the latest first; at most 1 000. `previous_secret` is told for 24 hours after the secret was replaced.',
      response: { 200: RefusalsReply },
    }),
    async ({ session }) => {
      const found = await refusals.list(session.companyId, system.now())
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
      summary: 'Replace the signing secret; the old one is invalid at once',
      description:
        'Needs the permission `webhook-secret:manage`, and in a cookie session a recent proof. From this answer on, no instance accepts a signature of the old secret. With `expectedVersion`, of two who replace it at once one is refused.',
      body: RegenerateBody,
      response: responses({ 200: RegenerateReply }, 'version_conflict', 'reauthentication_required'),
    }),
    async (request) => {
      const { session, body } = request
      if (session.kind === 'cookie') requireRecentAuthentication(request, system.now())
      const result = await signingSecrets.regenerate({
        session,
        expectedVersion: body?.expectedVersion,
        ...receivedOf(request, context),
      })
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

export const signingSecretRoutes = scopedRoutes(routes, 'signing-secret-routes', [
  'permission-guard',
  'signing-secrets',
])
