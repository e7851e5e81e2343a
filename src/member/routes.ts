import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { invalidCursor, readPage } from '../http/list-pages.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { actorOf } from '../session/acts.ts'
import { ID } from '../system.ts'
import { changeCompany, endOtherSessionsOfCompany } from './company.ts'
import * as members from './members.ts'
import { countMembers, listMembers, type Member } from './repository.ts'
import * as schemas from './schemas.ts'
import { addServiceAccount, replacePassword } from './service-members.ts'
import { ServicePasswordBody, ServicePasswordReply } from './service-password-schemas.ts'

const routes: Routes<Context> = async (app, options) => {
  app.addHook<{ Params: { id?: string } }>('preHandler', async ({ params: { id }, logContext }) => {
    if (id !== undefined) logContext.memberId = id.toLowerCase()
  })
  await app.register(reading, options)
  await app.register(changing, options)
  await app.register(services, options)
  await app.register(removing, options)
}

const operation = operationsOf('members')

const reading: Routes<Context> = async (app, { context }) => {
  app.get(
    '/auth/members',
    operation({
      operationId: 'listMembers',
      summary: 'List members',
      description:
        'Returns pages, sorted by name. All endpoints with this tag require the permission `members:manage`.',
      querystring: schemas.MembersQuery,
      response: { 200: schemas.MembersReply },
    }),
    async ({ session: { companyId }, query }) => {
      const { search, role, status, kind, secondFactor } = query
      const filter = { search, role, status, kind, secondFactor }
      const { rows, nextCursor } = await readPage(
        query,
        ({ name, id }: Member) => [name, id],
        ({ after, max }) =>
          listMembers(context.db, companyId, { ...filter, after: after && toPosition(after), max }),
      )
      const total = await countMembers(context.db, companyId, filter)
      return { members: rows.map(toReply), total, nextCursor }
    },
  )

  app.get(
    '/auth/members/:id',
    operation({
      operationId: 'getMember',
      summary: 'Get a member',
      description: 'A member of a different company returns 404, like one that does not exist.',
      params: schemas.MemberParams,
      response: responses({ 200: schemas.MemberReply }, 'not_found'),
    }),
    async ({ session: { companyId }, params }) =>
      toReply(await members.requireMember(context, companyId, params.id.toLowerCase())),
  )
}

const changing: Routes<Context> = async (app, { context }) => {
  app.patch(
    '/auth/members/:id',
    operation({
      operationId: 'changeMember',
      summary: 'Change a member',
      description:
        'Changes role, assignments, or status. The change takes effect on the next request of the member. Disabling a member ends all their sessions. You cannot change yourself. If you have no second factor, you also need `mailCode` to make someone an admin.',
      params: schemas.MemberParams,
      body: schemas.MemberChangeBody,
      response: responses({ 200: schemas.MemberReply }, 'not_found'),
    }),
    async (request) => {
      const { params, body } = request
      const actor = actorOf(request, context)
      return toReply(await members.changeMember(context, actor, params.id.toLowerCase(), body))
    },
  )
}

const services: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/members',
    operation({
      operationId: 'addServiceMember',
      summary: 'Add a service account',
      description:
        'For programs, which sign in by email and password, in token mode only. A correct password counts by service account instead of by network, so that a fleet can start behind one IP address. Service accounts get no emails, and never need to re-authenticate.',
      body: schemas.ServiceMemberBody,
      response: responses({ 201: schemas.ServiceMemberReply }, 'quota_reached'),
    }),
    async (request, reply) => {
      reply.code(201)
      return await addServiceAccount(context, actorOf(request, context), request.body)
    },
  )

  app.post(
    '/auth/members/:id/password',
    operation({
      operationId: 'replaceServicePassword',
      summary: 'Replace a service account password',
      description:
        'The previous password and its sessions stop working immediately. To rotate without downtime, keep them valid with `previousValidSeconds`. At most two passwords are valid at a time: a third one ends the oldest.',
      params: schemas.MemberParams,
      body: ServicePasswordBody,
      response: responses({ 200: ServicePasswordReply }, 'not_found'),
    }),
    async (request) => {
      const id = request.params.id.toLowerCase()
      const previousValidSeconds = request.body?.previousValidSeconds ?? 0
      const actor = actorOf(request, context)
      const { password, previousExpiresAt } = await replacePassword(context, actor, id, previousValidSeconds)
      return { password, previousExpiresAt: previousExpiresAt?.toISOString() ?? null }
    },
  )
}

const companies: Routes<Context> = async (app, { context }) => {
  app.patch(
    '/auth/company',
    operation({
      operationId: 'changeCompany',
      summary: 'Change company name or handle',
      description:
        'People type the handle instead of the company ID. It has 3 to 40 characters of `a-z 0-9 -`, starts with a letter, and ends with a letter or digit. Nobody can sign in with a previous handle. The last two stay reserved for the company, and older ones for 90 days.',
      body: schemas.CompanyChangeBody,
      response: responses({ 200: schemas.CompanyReply }, 'handle_taken'),
    }),
    async (request) => await changeCompany(context, actorOf(request, context), request.body),
  )

  app.delete(
    '/auth/company/sessions',
    operation({
      operationId: 'endSessionsOfCompany',
      summary: "End the company's other sessions",
      description:
        'Ends all sessions except the current one. Everyone must sign in again, including service accounts.',
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await endOtherSessionsOfCompany(context, actorOf(request, context))
      reply.code(204)
      return null
    },
  )
}

const removing: Routes<Context> = async (app, { context }) => {
  const operations = {
    '/auth/members/:id': {
      operationId: 'deleteMember',
      summary: 'Delete a member',
      description:
        'Permanently deletes name, email, and password, and ends all sessions. Only the ID remains.',
      remove: members.deleteMember,
    },
    '/auth/members/:id/sessions': {
      operationId: 'endSessionsOfMember',
      summary: "End a member's sessions",
      description: 'Once you get the response, no instance accepts a credential of these sessions.',
      remove: members.endSessionsOfMember,
    },
    '/auth/members/:id/second-factors': {
      operationId: 'resetSecondFactorsOfMember',
      summary: "Reset a member's second factors",
      description:
        'For members who lost their second factors. Removes second factors, recovery codes, and password, and ends all sessions. The member gets an email with a link to set a new password.',
      remove: members.resetSecondFactors,
    },
  }
  for (const [path, { remove, ...texts }] of Object.entries(operations)) {
    const response = responses({ 204: Type.Null() }, 'not_found')
    const options = operation({ ...texts, params: schemas.MemberParams, response })
    app.delete(path, options, async (request, reply) => {
      await remove(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(204)
      return null
    })
  }
}

function toPosition([name, id]: string[]) {
  if (name === undefined || id === undefined || !ID.test(id)) throw invalidCursor()
  return { name, id }
}

const isoOf = (time: string | null) => (time === null ? null : new Date(time).toISOString())

function toReply({ lastSignInAt, createdAt, passwords, ...member }: Member) {
  return {
    ...member,
    ...(passwords && {
      passwords: passwords.map(({ hint, ...times }) => ({
        hint,
        createdAt: isoOf(times.createdAt),
        lastUsedAt: isoOf(times.lastUsedAt),
        expiresAt: isoOf(times.expiresAt),
      })),
    }),
    lastSignInAt: lastSignInAt?.toISOString() ?? null,
    createdAt: createdAt.toISOString(),
  }
}

const GUARDS = ['permission-guard', 'recent-authentication-guard']
export const memberRoutes = scopedRoutes(routes, 'member-routes', GUARDS)
export const companyRoutes = scopedRoutes(companies, 'company-routes', GUARDS)
