import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { createCompanyAdmission } from '../limits/company-admission.ts'
import { actorOf } from '../session/acts.ts'
import { requireSameSite } from '../session/credential.ts'
import { DEFAULT_WATCHED, ReceivedEventsQuery, ReceivedEventsReply } from './schemas.ts'
import { toText, type Watched, watchEvents } from './watch.ts'

const operation = operationsOf('events')

const routes: Routes<Context> = async (app, { context }) => {
  // A response can have 50 times 8 KiB.
  const admit = createCompanyAdmission(context.config.limits.auditReads)
  app.get(
    '/auth/events',
    operation({
      operationId: 'listReceivedEvents',
      summary: 'List received events',
      description:
        'Returns the latest events that the company sent, newest first, without duplicates. The first request starts a watch, which the audit trail records. Each request keeps it for at least 15 minutes. Only events are shown that were received during the watch and in the last 15 minutes, at most 50. Requires the permission `events:inspect`.',
      querystring: ReceivedEventsQuery,
      response: { 200: Type.Unsafe<Watched>(ReceivedEventsReply) },
    }),
    async (request, reply) => {
      const { limit = DEFAULT_WATCHED } = request.query
      // It can start a watch, so pages of other sites must not send it with a cookie.
      if (request.headers.authorization === undefined) requireSameSite(request, context.config)
      const actor = actorOf(request, context)
      const watched = await admit(actor.session.companyId, () => watchEvents(context, actor, limit))
      reply.type('application/json; charset=utf-8').serializer(toText)
      return watched
    },
  )
}

export const watchRoutes = scopedRoutes(routes, 'watch-routes', ['permission-guard'])
