import { Type } from '@fastify/type-provider-typebox'
import type { Context } from '../http/context.ts'
import { AcceptedReply } from '../http/fields.ts'
import { readPage, toTimeAndId } from '../http/list-pages.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { actorOf } from '../session/acts.ts'
import { type Invitation, listInvitations } from './invitation-repository.ts'
import { invite, resend, withdraw } from './invitations.ts'
import * as schemas from './schemas.ts'

const operation = operationsOf('members')

const routes: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/invitations',
    operation({
      operationId: 'invite',
      summary: 'Invite someone by email',
      description:
        'Replaces an earlier invitation to the same email. The invitation becomes invalid if its sender loses the permission `members:manage`. If you have no second factor, you also need `mailCode` to invite an admin.',
      body: schemas.InvitationBody,
      response: responses({ 201: schemas.InvitationReply }, 'already_member', 'quota_reached'),
    }),
    async (request, reply) => {
      reply.code(201)
      return toReply(await invite(context, actorOf(request, context), request.body))
    },
  )

  app.get(
    '/auth/invitations',
    operation({
      operationId: 'listInvitations',
      summary: 'List open invitations',
      description:
        'Returns pages, newest first. An invitation is open if its link works, or if its email has not been sent yet.',
      querystring: schemas.InvitationsQuery,
      response: { 200: schemas.InvitationsReply },
    }),
    async ({ session: { companyId }, query }) => {
      const now = new Date(context.system.now())
      const { rows, nextCursor } = await readPage(
        query,
        ({ createdAt, id }: Invitation) => [createdAt.toISOString(), id],
        ({ after, max }) =>
          listInvitations(context.db, companyId, { now, after: after && toTimeAndId(after), max }),
      )
      return { invitations: rows.map(toReply), nextCursor }
    },
  )

  app.post(
    '/auth/invitations/:id/resend',
    operation({
      operationId: 'resendInvitation',
      summary: 'Resend an invitation',
      description: 'The previous link works until the mail server has accepted the new email.',
      params: schemas.InvitationParams,
      response: responses({ 202: AcceptedReply }, 'not_found', 'quota_reached'),
    }),
    async (request, reply) => {
      await resend(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(202)
      return {}
    },
  )

  app.delete(
    '/auth/invitations/:id',
    operation({
      operationId: 'withdrawInvitation',
      summary: 'Withdraw an invitation',
      description: 'Its link stops working. If its email is still queued, it is not sent.',
      params: schemas.InvitationParams,
      response: responses({ 204: Type.Null() }, 'not_found'),
    }),
    async (request, reply) => {
      await withdraw(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(204)
      return null
    },
  )
}

function toReply({ createdAt, expiresAt, ...invitation }: Invitation) {
  return { ...invitation, createdAt: createdAt.toISOString(), expiresAt: expiresAt?.toISOString() ?? null }
}

export const invitationRoutes = scopedRoutes(routes, 'invitation-routes', [
  'permission-guard',
  'recent-authentication-guard',
])
