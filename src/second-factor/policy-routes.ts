import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import fp from 'fastify-plugin'
import { actorOf, countChange } from '../acts.ts'
import type { Context } from '../context.ts'
import { changePolicy, requireSecurity } from './policy.ts'
import { PolicyBody, PolicyReply } from './schemas.ts'

interface Options {
  context: Context
}

const tags = ['second factors']

/** The policy of the company; behind the permission guard and that of recent proof. */
const routes: FastifyPluginAsyncTypebox<Options> = async (app, { context }) => {
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
    async ({ session }) => await requireSecurity(context.db, session.companyId),
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
      const actor = actorOf(request, context)
      await countChange(context, actor)
      await changePolicy(context, actor, request.body.secondFactor)
      return await requireSecurity(context.db, actor.session.companyId)
    },
  )
}

export const policyRoutes = fp(routes, {
  name: 'policy-routes',
  dependencies: ['permission-guard', 'recent-proof-guard'],
  encapsulate: true,
})
