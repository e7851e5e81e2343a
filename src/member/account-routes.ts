import { Readable } from 'node:stream'
import { Type } from '@fastify/type-provider-typebox'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { AcceptedReply } from '../http/fields.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { receivedOf } from '../limits/client.ts'
import { actorOf } from '../session/acts.ts'
import { clearSessionCookie, requireSameSite } from '../session/credential.ts'
import { requireRecentAuthentication } from '../session/session.ts'
import {
  changeOwnName,
  changePassword,
  confirmEmailChange,
  previewEmailChange,
  requestEmailChange,
  requireEmailChange,
  undo,
  withdrawEmailChange,
} from './account.ts'
import { deleteOwnAccount, exportOwnData } from './own-data.ts'
import { MAX_EXPORTED } from './own-data-repository.ts'
import { OwnDataReply } from './own-data-schemas.ts'
import * as schemas from './schemas.ts'

const operation = operationsOf('account')

const account: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/password/change',
    operation({
      operationId: 'changePassword',
      summary: 'Change your password',
      description: 'Ends your other sessions. Emailed reset links and a pending email change become invalid.',
      tags: ['session'],
      body: schemas.PasswordChangeBody,
      response: responses({ 204: Type.Null() }, 'permission_denied'),
    }),
    async (request, reply) => {
      await changePassword(context, actorOf(request, context), request.body)
      reply.code(204)
      return null
    },
  )

  app.patch(
    '/auth/account',
    operation({
      operationId: 'changeAccount',
      summary: 'Change your name',
      description: 'Takes effect on the next request, on every instance.',
      body: schemas.AccountBody,
      response: { 200: schemas.AccountReply },
    }),
    async (request) => {
      const { userId: id, email, role } = request.session
      const name = await changeOwnName(context, actorOf(request, context), request.body.name)
      return { id, email, name, role }
    },
  )

  app.post(
    '/auth/email/change',
    operation({
      operationId: 'changeEmail',
      summary: 'Request a new email address',
      description:
        'Sends a confirmation link to the new address. Nothing changes until the link is used. A newer request, a new password, or disabling the account invalidates the link. The request requires recent authentication. Without a second factor, it also requires a code from `POST /auth/second-factors/mail-code` with `{"for":"email"}`. After a change without a second factor, the previous address gets an email with a link to undo it.',
      body: schemas.EmailChangeBody,
      response: responses({ 202: AcceptedReply }, 'reauthentication_required', 'permission_denied'),
    }),
    async (request, reply) => {
      const actor = actorOf(request, context)
      requireRecentAuthentication(request, actor.now)
      await requestEmailChange(context, actor, request.body)
      reply.code(202)
      return {}
    },
  )

  app.get(
    '/auth/email/change',
    operation({
      operationId: 'getEmailChange',
      summary: 'Get your pending email change',
      description: 'Returns 404 if no change is pending, or if its link has expired.',
      response: responses({ 200: schemas.EmailChangeReply }, 'not_found'),
    }),
    async (request) => {
      const { email, requestedAt, expiresAt } = await requireEmailChange(context, actorOf(request, context))
      return { email, requestedAt: requestedAt.toISOString(), expiresAt: expiresAt?.toISOString() ?? null }
    },
  )

  app.delete(
    '/auth/email/change',
    operation({
      operationId: 'withdrawEmailChange',
      summary: 'Withdraw your pending email change',
      description:
        'Its link stops working. If its email is still queued, it is not sent. Returns 404 if no change is pending, for example because it was confirmed or withdrawn in the meantime. So 204 means that the change can no longer happen.',
      response: responses({ 204: Type.Null() }, 'not_found'),
    }),
    async (request, reply) => {
      await withdrawEmailChange(context, actorOf(request, context))
      reply.code(204)
      return null
    },
  )
}

const ownData: Routes<Context> = async (app, { context }) => {
  const exporting = new Set<string>()
  app.get(
    '/auth/account/export',
    operation({
      operationId: 'exportAccount',
      summary: 'Export your data',
      description: `Returns everything that the service stores about you, without secrets and without other people's data, except the emails that you invited. It has all audit entries by or about you, and at most ${MAX_EXPORTED.toLocaleString('en')} of everything else. Requires recent authentication. One export per user at a time.`,
      response: responses({ 200: OwnDataReply }, 'reauthentication_required'),
    }),
    async (request, reply) => {
      // It reads much, so pages of other sites must not send it with a cookie.
      if (request.headers.authorization === undefined) requireSameSite(request, context.config)
      const actor = actorOf(request, context)
      requireRecentAuthentication(request, actor.now)
      const { userId } = actor.session
      if (exporting.has(userId)) throw alreadyExporting()
      exporting.add(userId)
      const done = () => exporting.delete(userId)
      const data = await exportOwnData(context, actor).catch((error) => {
        done()
        throw error
      })
      reply
        .type('application/json; charset=utf-8')
        .header('content-disposition', 'attachment; filename="account.json"')
      return reply.send(Readable.from(data).once('close', done))
    },
  )

  app.delete(
    '/auth/account',
    operation({
      operationId: 'deleteAccount',
      summary: 'Delete your account',
      description:
        'Permanently deletes your name, email, password, and second factors, and ends all your sessions. Only the ID remains, in the audit trail. The last active admin cannot do it, and service accounts cannot either. Requires recent authentication.',
      response: responses(
        { 204: Type.Null() },
        'reauthentication_required',
        'permission_denied',
        'last_admin',
      ),
    }),
    async (request, reply) => {
      const actor = actorOf(request, context)
      requireRecentAuthentication(request, actor.now)
      await deleteOwnAccount(context, actor)
      if (actor.session.kind === 'cookie') clearSessionCookie(reply)
      reply.code(204)
      return null
    },
  )
}

function alreadyExporting(): Problem {
  const detail = 'You already have an export in progress. Retry when it has finished.'
  return new Problem('rate_limited', detail, { retryAfterSeconds: 10 })
}

/** Emailed links that confirm or undo a change. They work without signing in. */
const links: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/email/confirm/preview',
    operation({
      operationId: 'previewEmailChange',
      summary: 'Preview an email change',
      description:
        'Returns the account whose email the emailed link changes. The link stays valid. A token that no longer works returns 400 at `/token`.',
      body: schemas.ConfirmBody,
      response: { 200: schemas.EmailChangePreviewReply },
    }),
    async (request) => previewEmailChange(context, request.body.token, receivedOf(request, context)),
  )

  app.post(
    '/auth/email/confirm',
    operation({
      operationId: 'confirmEmail',
      summary: 'Confirm a new email address',
      description:
        'Uses the token from the email to the new address. Links in emails to the previous address no longer work. Both addresses get a notice.',
      body: schemas.ConfirmBody,
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      const ids = await confirmEmailChange(context, request.body.token, receivedOf(request, context))
      Object.assign(request.logContext, ids)
      reply.code(204)
      return null
    },
  )

  app.post(
    '/auth/undo',
    operation({
      operationId: 'undo',
      summary: 'Undo an account change',
      description:
        'Uses the token from the email about a first second factor, or about an email change without a second factor. The token is valid for 72 hours. Undoing restores the previous address, removes the password and all second factors, and ends all sessions. Emailed links and later invitations of the account become invalid. The user gets an email with a link to set a new password. `additions` lists later additions to the company that the undo does not remove.',
      body: schemas.UndoBody,
      response: { 200: schemas.UndoReply },
    }),
    async (request) => {
      const received = receivedOf(request, context)
      const { companyId, userId, email, additions } = await undo(context, request.body.token, received)
      Object.assign(request.logContext, { companyId, userId })
      const { signingSecret: secret } = additions
      const signingSecret = secret && { ...secret, createdAt: secret.createdAt.toISOString() }
      return { companyId, email, additions: { ...additions, signingSecret } }
    },
  )
}

export const ownDataRoutes = scopedRoutes(ownData, 'own-data-routes', ['session-guard', 'enrolment-guard'])
export const accountRoutes = scopedRoutes(account, 'account-routes', ['session-guard', 'enrolment-guard'])
export const accountLinkRoutes = scopedRoutes(links, 'account-link-routes', ['public-guard'])
