import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { invalidCursor, readPage } from '../http/list-pages.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { actorOf } from '../session/acts.ts'
import { ID } from '../system.ts'
import * as members from './members.ts'
import { countMembers, listMembers, type Member } from './repository.ts'
import {
  MemberChangeBody,
  MemberParams,
  MemberReply,
  MembersQuery,
  MembersReply,
  ServiceMemberBody,
  ServiceMemberReply,
} from './schemas.ts'
import { addServiceMember, replacePassword } from './service-members.ts'
import { ServicePasswordBody, ServicePasswordReply } from './service-password-schemas.ts'

/** The members of a company, for those who may manage them; behind the permission guard and that of recent authentication. */
const routes: Routes<Context> = async (app, options) => {
  app.addHook<{ Params: { id?: string } }>('preHandler', async ({ params: { id }, logContext }) => {
    if (id !== undefined) logContext.memberId = id.toLowerCase()
  })
  await app.register(reading, options)
  await app.register(changing, options)
  await app.register(services, options)
  await app.register(endingSessions, options)
}

const operation = operationsOf('members')
/** All that is done to a member. */
const problems = ['not_found'] as const

const reading: Routes<Context> = async (app, { context }) => {
  app.get(
    '/auth/members',
    operation({
      operationId: 'listMembers',
      summary: 'The members of the company by name, in pages',
      description: 'Needs the permission `members:manage`, as everything here.',
      querystring: MembersQuery,
      response: { 200: MembersReply },
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
      return {
        members: rows.map(toReply),
        total: await countMembers(context.db, companyId, filter),
        nextCursor,
      }
    },
  )

  app.get(
    '/auth/members/:id',
    operation({
      operationId: 'getMember',
      summary: 'One member of the company',
      description: 'An id of another company is answered like one that does not exist.',
      params: MemberParams,
      response: responses({ 200: MemberReply }, ...problems),
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
      params: MemberParams,
      body: MemberChangeBody,
      response: responses({ 200: MemberReply }, ...problems),
    }),
    async (request) => {
      const { params, body } = request
      return toReply(
        await members.changeMember(context, actorOf(request, context), params.id.toLowerCase(), body),
      )
    },
  )

  app.delete(
    '/auth/members/:id',
    operation({
      operationId: 'deleteMember',
      summary: 'Delete a member; nothing but the id stays',
      description: 'Name, e-mail and password are gone for good, and all sessions end.',
      params: MemberParams,
      response: responses({ 204: Type.Null() }, ...problems),
    }),
    async (request, reply) => {
      await members.deleteMember(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(204)
      return null
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
      body: ServiceMemberBody,
      response: responses({ 201: ServiceMemberReply }, 'quota_reached'),
    }),
    async (request, reply) => {
      reply.code(201)
      return await addServiceMember(context, actorOf(request, context), request.body)
    },
  )

  app.post(
    '/auth/members/:id/password',
    operation({
      operationId: 'replaceServicePassword',
      summary: 'Replace the password of a service member',
      description:
        'The old one, and the sessions that it opened, are dead at once. With `previousValidSeconds` both work for so long, so that a fleet is changed without a pause; of three, the oldest is dead.',
      params: MemberParams,
      body: ServicePasswordBody,
      response: responses({ 200: ServicePasswordReply }, ...problems),
    }),
    async (request) => {
      const id = request.params.id.toLowerCase()
      const previousValidSeconds = request.body?.previousValidSeconds ?? 0
      const actor = actorOf(request, context)
      const replaced = await replacePassword(context, actor, id, previousValidSeconds)
      const { password, previousExpiresAt } = replaced
      return { password, previousExpiresAt: previousExpiresAt?.toISOString() ?? null }
    },
  )
}

const endingSessions: Routes<Context> = async (app, { context }) => {
  app.delete(
    '/auth/members/:id/sessions',
    operation({
      operationId: 'endSessionsOfMember',
      summary: 'End all sessions of a member',
      description: 'From the answer on, no instance accepts a credential of them.',
      params: MemberParams,
      response: responses({ 204: Type.Null() }, ...problems),
    }),
    async (request, reply) => {
      await members.endSessionsOfMember(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(204)
      return null
    },
  )

  app.delete(
    '/auth/members/:id/second-factors',
    operation({
      operationId: 'resetSecondFactorsOfMember',
      summary: 'Reset the second factors of a member who has lost them',
      description:
        'Factors, recovery codes and password are void, all sessions end, and the member is mailed a link to choose another password.',
      params: MemberParams,
      response: responses({ 204: Type.Null() }, ...problems),
    }),
    async (request, reply) => {
      await members.resetSecondFactors(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(204)
      return null
    },
  )
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

export const memberRoutes = scopedRoutes(routes, 'member-routes', [
  'permission-guard',
  'recent-authentication-guard',
])
