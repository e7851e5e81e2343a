import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { actorOf } from '../session/acts.ts'
import { changeCompany, endOtherSessionsOfCompany } from './company.ts'
import { CompanyChangeBody, CompanyReply } from './schemas.ts'

const operation = operationsOf('members')

/** The company, for those who may manage its members; behind the permission guard and that of recent authentication. */
const routes: Routes<Context> = async (app, { context }) => {
  app.patch(
    '/auth/company',
    operation({
      operationId: 'changeCompany',
      summary: 'Change the name of the company, or the handle that people type in place of its id',
      description:
        'A handle has 3 to 40 of `a-z 0-9 -`, begins with a letter and ends with a letter or digit. A former one signs nobody in; the last two stay reserved for the company, and others for 90 days.',
      body: CompanyChangeBody,
      response: responses({ 200: CompanyReply }, 'handle_taken'),
    }),
    async (request) => await changeCompany(context, actorOf(request, context), request.body),
  )

  app.delete(
    '/auth/company/sessions',
    operation({
      operationId: 'endSessionsOfCompany',
      summary: 'End all sessions of the company but the one that asks',
      description: 'Everybody else signs in again, servers too.',
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await endOtherSessionsOfCompany(context, actorOf(request, context))
      reply.code(204)
      return null
    },
  )
}

export const companyRoutes = scopedRoutes(routes, 'company-routes', [
  'permission-guard',
  'recent-authentication-guard',
])
