import { Type } from '@fastify/type-provider-typebox'
import { isConcerned } from '../company/account.ts'
import type { Context } from '../http/context.ts'
import { AcceptedReply } from '../http/fields.ts'
import { operationsOf, type Routes, scopedRoutes } from '../http/operations.ts'
import { responses } from '../http/responses.ts'
import { actorOf, countChange } from '../session/acts.ts'
import { mustEnroll } from '../session/session.ts'
import { countRecoveryCodes } from './codes-repository.ts'
import * as enrolment from './enrolment.ts'
import { mailCode, mustProveMailbox } from './mailbox.ts'
import { removeFactor, renewRecoveryCodes } from './own-factors.ts'
import { changeSecurity, requireSecurity } from './policy.ts'
import { listFactors } from './repository.ts'
import * as schemas from './schemas.ts'

/** Also open to members whom the policy blocks, so that they can add a factor. */
const routes: Routes<Context> = async (app, options) => {
  await app.register(reading, options)
  await app.register(authenticatorApps, options)
  await app.register(passkeys, options)
  await app.register(recovery, options)
}

const operation = operationsOf('second factors')

const reading: Routes<Context> = async (app, { context }) => {
  const { db, digests } = context
  app.get(
    '/auth/second-factors',
    operation({
      operationId: 'listSecondFactors',
      summary: 'List your second factors',
      description: 'Also shows whether your company requires one. Does not require recent authentication.',
      response: { 200: schemas.FactorsReply },
    }),
    async ({ session }) => {
      const { companyId, userId } = session
      const found = await listFactors(db, companyId, userId)
      return {
        secondFactors: found.map(({ factorId: id, kind, name, createdAt, lastUsedAt }) => ({
          id,
          kind,
          name,
          createdAt: createdAt.toISOString(),
          lastUsedAt: lastUsedAt?.toISOString() ?? null,
        })),
        recoveryCodes: await countRecoveryCodes(db, companyId, userId, digests.keyIds),
        required: isConcerned(session),
        enrolmentRequired: mustEnroll(session),
        mailCodeRequired: mustProveMailbox(session),
      }
    },
  )

  app.delete(
    '/auth/second-factors/:id',
    operation({
      operationId: 'removeSecondFactor',
      summary: 'Remove a second factor',
      description:
        'Ends your other sessions. Removing the last second factor also removes your recovery codes. If your company requires a second factor, removing the last one returns 409 `factor_required`.',
      params: schemas.FactorParams,
      response: responses({ 204: Type.Null() }, 'not_found', 'factor_required'),
    }),
    async (request, reply) => {
      await removeFactor(context, actorOf(request, context), request.params.id.toLowerCase())
      reply.code(204)
      return null
    },
  )

  app.post(
    '/auth/second-factors/mail-code',
    operation({
      operationId: 'mailSecondFactorCode',
      summary: 'Email yourself a code',
      description:
        'Members without a second factor need a code to add their first one, change their email, or make someone an admin. The code has eight digits, and works for 10 minutes and five tries. It works only for the requested purpose, and only in this session. A new code replaces the previous one.',
      body: schemas.MailCodeBody,
      response: responses({ 202: AcceptedReply }, 'permission_denied'),
    }),
    async (request, reply) => {
      await mailCode(context, actorOf(request, context), request.body?.for ?? 'factor')
      reply.code(202)
      return {}
    },
  )
}

const authenticatorApps: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/second-factors/totp',
    operation({
      operationId: 'addTotp',
      summary: 'Add an authenticator app',
      description:
        'Show `uri` as a QR code, or `secret` as text. Nothing changes until you confirm the app with its first code, within an hour.',
      body: schemas.TotpBody,
      response: responses({ 201: schemas.TotpReply }, 'permission_denied', 'quota_reached'),
    }),
    async (request, reply) => {
      const added = await enrolment.addTotp(context, actorOf(request, context), request.body?.mailCode)
      reply.code(201)
      return added
    },
  )

  app.post(
    '/auth/second-factors/totp/:id/confirm',
    operation({
      operationId: 'confirmTotp',
      summary: 'Confirm an authenticator app',
      description:
        'Ends your other sessions. The current session counts as signed in with the new factor. Your first second factor comes with recovery codes.',
      params: schemas.FactorParams,
      body: schemas.ConfirmBody,
      response: responses({ 200: schemas.ConfirmReply }, 'not_found'),
    }),
    async (request) => {
      const given = { id: request.params.id.toLowerCase(), code: request.body.code }
      const recoveryCodes = await enrolment.confirmTotp(context, actorOf(request, context), given)
      return { ...(recoveryCodes && { recoveryCodes }) }
    },
  )
}

const passkeys: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/second-factors/passkeys/options',
    operation({
      operationId: 'beginPasskey',
      summary: 'Get passkey creation options',
      description: 'The options are valid for 5 minutes, in this session.',
      response: responses({ 200: schemas.CreationOptionsReply }, 'permission_denied'),
    }),
    async (request) => await enrolment.beginPasskey(context, actorOf(request, context)),
  )

  app.post(
    '/auth/second-factors/passkeys',
    operation({
      operationId: 'addPasskey',
      summary: 'Add a passkey',
      description:
        'Ends your other sessions. The current session counts as signed in with the new factor. Your first second factor comes with recovery codes.',
      body: schemas.PasskeyBody,
      response: responses({ 201: schemas.PasskeyReply }, 'quota_reached'),
    }),
    async (request, reply) => {
      const actor = actorOf(request, context)
      const { id, recoveryCodes } = await enrolment.addPasskey(context, actor, request.body)
      reply.code(201)
      return { id, ...(recoveryCodes && { recoveryCodes }) }
    },
  )
}

const recovery: Routes<Context> = async (app, { context }) => {
  app.post(
    '/auth/second-factors/recovery-codes',
    operation({
      operationId: 'renewRecoveryCodes',
      summary: 'Replace your recovery codes',
      description: 'The previous codes no longer work. The new ones are shown only once.',
      response: responses({ 201: schemas.RecoveryCodesReply }, 'factor_required'),
    }),
    async (request, reply) => {
      const recoveryCodes = await renewRecoveryCodes(context, actorOf(request, context))
      reply.code(201)
      return { recoveryCodes }
    },
  )
}

const policy: Routes<Context> = async (app, { context }) => {
  app.get(
    '/auth/company/security',
    operation({
      operationId: 'getSecurity',
      summary: 'Get the security settings',
      description:
        'Returns the second-factor policy with the number of members that each setting would affect, and the session limits. Requires the permission `members:manage`.',
      response: { 200: schemas.PolicyReply },
    }),
    async ({ session }) => await requireSecurity(context.db, session.companyId),
  )

  app.patch(
    '/auth/company/security',
    operation({
      operationId: 'changeSecurity',
      summary: 'Change the security settings',
      description:
        'Takes effect on the next request, even in existing sessions, but not for service accounts. Until they add or use a second factor, the members that the policy affects get 403 `second_factor_enrolment_required`. Only refresh, logout, `/auth/session`, `/auth/reauthenticate`, and `/auth/second-factors` still work for them. A session past a limit has ended, with the reason `expired`. The maximum age must be at least the idle limit.',
      body: schemas.PolicyBody,
      response: { 200: schemas.PolicyReply },
    }),
    async (request) => {
      const actor = actorOf(request, context)
      await countChange(context, actor)
      await changeSecurity(context, actor, request.body)
      return await requireSecurity(context.db, actor.session.companyId)
    },
  )
}

export const secondFactorRoutes = scopedRoutes(routes, 'second-factor-routes', [
  'session-guard',
  'recent-authentication-guard',
])
export const policyRoutes = scopedRoutes(policy, 'policy-routes', [
  'permission-guard',
  'recent-authentication-guard',
])
