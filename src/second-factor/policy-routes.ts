import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { clientOf } from '../limits/client.ts'
import { requireActor } from '../session/acting.ts'
import type { Context } from './context.ts'
import { changePolicy, requireSecurity } from './policy.ts'
import { PolicyBody, PolicyReply } from './schemas.ts'

interface Options {
  context: Context
}

const tags = ['second factors']

/** The policy of the company; behind the permission guard and that of recent proof. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { context }) => {
  const { db, system, config, counters } = context
  app.get(
    '/auth/company/security',
    {
      schema: {
        operationId: 'getSecurity',
        summary: 'Whether the company asks for a second factor, and whom each setting would hold',
        description: 'Needs the permission `members:manage`.',
        tags,
        response: { 200: PolicyReply },
      },
    },
    async ({ session }) => await requireSecurity(db, session.companyId),
  )

  app.patch(
    '/auth/company/security',
    {
      schema: {
        operationId: 'changeSecurity',
        summary: 'Ask for a second factor, from admins or from everyone',
        description:
          'It holds from the next request on, also in sessions that have begun. Who has no second factor then adds one, and until then gets `second_factor_enrolment_required` for all else. Servers are not asked.',
        tags,
        body: PolicyBody,
        response: { 200: PolicyReply },
      },
    },
    async (request) => {
      const { session, body } = request
      const { companyId, userId, sessionId } = session
      const [{ ipAddress }, now] = [clientOf(request), system.now()]
      await counters.consume(config.limits.memberChanges, [companyId, userId], now)
      await db.transaction().execute(async (tx) => {
        const change = { policy: body.secondFactor, ipAddress, now }
        await changePolicy(tx, system, companyId, change, {
          confirm: async () => await requireActor(tx, session, now, 'members:manage'),
          async audit(details) {
            const about = { action: 'security_policy', outcome: 'done', actor: userId, sessionId, ipAddress }
            const entry = newEntry(system, new Date(now), { ...about, details: { ...details } })
            await appendAudit(tx, companyId, entry)
          },
        })
      })
      return await requireSecurity(db, companyId)
    },
  )
}

export const policyRoutes = fp(routes, {
  name: 'policy-routes',
  dependencies: ['permission-guard', 'recent-proof-guard'],
  encapsulate: true,
})
