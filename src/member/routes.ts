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
      summary: 'The members of the company by name, in pages',
      description: 'Needs the permission `members:manage`, as everything here.',
      querystring: schemas.MembersQuery,
      response: { 200: schemas.MembersReply },
    }),
    async ({ session: { companyId }, query }) => {
      const { search, role, status } = query
      const filter = { search, role, status }
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
      summary: 'One member of the company',
      description: 'An id of another company is answered like one that does not exist.',
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
      summary: "Change a member's role, assignments or status",
      description:
        'It holds from the next request of the member on. Disabling ends all sessions of the member. Nobody changes themselves. Without a second factor, a change to role `admin` also needs `mailCode`.',
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
      summary: 'Add a server of the company as a member',
      description:
        'It signs in by e-mail and password, in token mode alone; right passwords are not counted, so that a fleet can start behind one address. It gets no mail and is never asked for a recent proof.',
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
      summary: 'Replace the password of a service member',
      description:
        'The old one, and the sessions that it opened, are dead at once. With `previousValidSeconds` both work for so long, so that a fleet is changed without a pause; of three, the oldest is dead.',
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
      summary: 'Change the name of the company, or the handle that people type in place of its id',
      description:
        'A handle has 3 to 40 of `a-z 0-9 -`, begins with a letter and ends with a letter or digit. A former one signs nobody in; the last two stay reserved for the company, and others for 90 days.',
      body: schemas.CompanyChangeBody,
      response: responses({ 200: schemas.CompanyReply }, 'handle_taken'),
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

const removing: Routes<Context> = async (app, { context }) => {
  const operations = {
    '/auth/members/:id': {
      operationId: 'deleteMember',
      summary: 'Delete a member; nothing but the id stays',
      description: 'Name, e-mail and password are gone for good, and all sessions end.',
      remove: members.deleteMember,
    },
    '/auth/members/:id/sessions': {
      operationId: 'endSessionsOfMember',
      summary: 'End all sessions of a member',
      description: 'From the answer on, no instance accepts a credential of them.',
      remove: members.endSessionsOfMember,
    },
    '/auth/members/:id/second-factors': {
      operationId: 'resetSecondFactorsOfMember',
      summary: 'Reset the second factors of a member who has lost them',
      description:
        'Factors, recovery codes and password are void, all sessions end, and the member is mailed a link to choose another password.',
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
