import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import { digestServicePassword } from '../crypto/opaque.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { addProblems } from '../http/responses.ts'
import { idsOf } from '../token/claims.ts'
import {
  bearerOf,
  CREDENTIAL_PROBLEMS,
  type Credential,
  expireRefusedCookie,
  readCredential,
  requireSameSiteToChange,
  requireSameSiteToForward,
  sessionChanged,
} from './credential.ts'
import type { SessionLookUp } from './look-up.ts'
import {
  mustEnroll,
  provenAtOf,
  requirePermission,
  requireRecentAuthentication,
  type Session,
} from './session.ts'

/** Each guard decides which sessions its scope admits. Only the first two read a credential. */

declare module 'fastify' {
  interface FastifyRequest {
    /** Its session may have ended. Set by the credential guard. */
    credential: Credential
    /** Read from the database for this request. Set by the session guard. */
    session: Session
    /** In milliseconds; 0 if unknown. Set by the session guard. */
    provenAt: number
  }
}

const SECURITY = [{ accessToken: [] }, { sessionCookie: [] }]
const DEPENDENCIES = ['memory-limits', 'observe', 'responses']
const READS = ['GET', 'HEAD']

/** Admits genuine credentials, even of ended sessions, so the route's statement must refuse those. */
async function credential(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  const { config, system, tokens } = context
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = SECURITY
    addProblems(route.schema, CREDENTIAL_PROBLEMS)
  })
  app.addHook('onSend', expireRefusedCookie)
  app.decorateRequest('credential')
  app.addHook('onRequest', async (request: FastifyRequest) => {
    const checks = { tokens, config, checkSite: requireSameSiteToChange }
    const credential = await readCredential(request, checks, system.now())
    request.credential = credential
    if ('claims' in credential) Object.assign(request.logContext, idsOf(credential.claims))
  })
}

interface SessionGuardOptions {
  context: Context
  sessions: SessionLookUp
  /** For forward authentication: a header names the method of the original request. */
  isForwarded?: boolean
  /** Of service accounts, as bearer tokens: `session` is then what the account would have. */
  admitsPasswords?: boolean
}

async function session(
  app: FastifyInstance,
  { context, sessions, isForwarded = false, admitsPasswords = false }: SessionGuardOptions,
): Promise<void> {
  const { config, system, tokens, opaque } = context
  const checkSite = isForwarded ? requireSameSiteToForward : requireSameSiteToChange
  const countRequest = app.limits.perSubject(config.limits.session, ({ session }) => [session.sessionId])
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = admitsPasswords ? [...SECURITY, { servicePassword: [] }] : SECURITY
    // A forwarded request shows no page of ours.
    addProblems(
      route.schema,
      CREDENTIAL_PROBLEMS.filter((code) => !isForwarded || code !== 'session_changed'),
    )
  })
  if (!isForwarded) app.addHook('onSend', expireRefusedCookie)
  app.decorateRequest('session')
  app.decorateRequest('provenAt', 0)
  app.addHook('onRequest', async (request) => {
    const now = system.now()
    const { logContext } = request
    if (isForwarded) logContext.isLive = false
    const digest = admitsPasswords ? digestServicePassword(opaque, bearerOf(request) ?? '') : null
    if (digest) {
      request.session = await sessions.byServicePassword(digest, now)
    } else {
      const credential = await readCredential(request, { tokens, config, checkSite }, now)
      request.session = await find(credential, now)
      request.provenAt = provenAtOf(request.session, 'claims' in credential ? credential.claims : undefined)
      logContext.sessionId = request.session.sessionId
    }
    logContext.companyId = request.session.companyId
    logContext.userId = request.session.userId
    if (isForwarded) logContext.isLive = true
    await countRequest(request)
  })

  async function find(credential: Credential, now: number): Promise<Session> {
    if ('claims' in credential) return await sessions.byToken(credential.claims, now)
    const session = await sessions.byCookie(credential.cookie, now)
    const { shownSessionId } = credential
    if (!isForwarded && shownSessionId !== null && shownSessionId !== session.sessionId)
      throw sessionChanged()
    return await sessions.renew(session, now)
  }
}

/** Checks the company's current policy on second factors (ASVS 6.3.3). */
async function enrolment(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', ({ schema }) => addProblems(schema, ['second_factor_enrolment_required']))
  app.addHook('onRequest', async ({ session }) => {
    if (!mustEnroll(session)) return
    throw new Problem(
      'second_factor_enrolment_required',
      session.secondFactors.length === 0
        ? 'Your company requires a second factor. Add one at /auth/second-factors.'
        : 'Your company requires a second factor. Confirm yours with POST /auth/reauthenticate.',
    )
  })
}

async function permission(app: FastifyInstance, { permission }: { permission: string }): Promise<void> {
  app.addHook('onRoute', ({ schema }) => addProblems(schema, ['permission_denied']))
  app.addHook('onRequest', async ({ session }) => {
    requirePermission(session, permission)
  })
}

async function recentAuthentication(app: FastifyInstance, { context }: { context: Context }): Promise<void> {
  app.addHook('onRoute', ({ schema, method }) => {
    if ([method].flat().some((one) => !READS.includes(one)))
      addProblems(schema, ['reauthentication_required'])
  })
  app.addHook('onRequest', async (request) => {
    if (!READS.includes(request.method)) requireRecentAuthentication(request, context.system.now())
  })
}

/** The only scope that admits service passwords without a sign-in, because collectors keep no session. */
async function feed(app: FastifyInstance, options: Omit<SessionGuardOptions, 'isForwarded'>): Promise<void> {
  await app.register(sessionGuard, { ...options, admitsPasswords: true })
  await app.register(enrolmentGuard)
  await app.register(permissionGuard, { permission: 'audit:read' })
}

export const credentialGuard = fp(credential, { name: 'credential-guard', dependencies: DEPENDENCIES })
export const sessionGuard = fp(session, { name: 'session-guard', dependencies: DEPENDENCIES })
export const enrolmentGuard = fp(enrolment, { name: 'enrolment-guard', dependencies: ['session-guard'] })
export const permissionGuard = fp(permission, { name: 'permission-guard', dependencies: ['enrolment-guard'] })
export const feedGuard = fp(feed, { name: 'feed-guard', dependencies: DEPENDENCIES })
export const recentAuthenticationGuard = fp(recentAuthentication, {
  name: 'recent-authentication-guard',
  dependencies: ['session-guard'],
})
