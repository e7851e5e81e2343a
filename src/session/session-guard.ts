import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Context } from '../context.ts'
import { addProblems } from '../http/responses.ts'
import { expireRefusedCookie, requireSameSiteToChange, requireSameSiteToForward } from './cookie.ts'
import { CREDENTIAL_PROBLEMS, type Credential, readCredential, sessionChanged } from './credential.ts'
import type { SessionLookUp } from './look-up.ts'
import { provenAtOf, type Session } from './session.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Read from the database for this request, with the rights of the user. Set by the session guard. */
    session: Session
    /** When its user last proved who they are, in milliseconds; 0 if that cannot be told. Set by the session guard. */
    provenAt: number
  }
}

interface Options {
  context: Context
  sessions: SessionLookUp
  /** Whether a proxy asks, whose headers name the method of the request that is meant. */
  isForwarded?: boolean
}

/** Admits live sessions: by access token, or by cookie from a page of the service or a dashboard origin. */
async function plugin(
  app: FastifyInstance,
  { context, sessions, isForwarded = false }: Options,
): Promise<void> {
  const { config, system, tokens } = context
  const checkSite = isForwarded ? requireSameSiteToForward : requireSameSiteToChange
  const countRequest = app.limits.perSubject(config.limits.session, ({ session }) => [session.sessionId])
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ accessToken: [] }, { sessionCookie: [] }]
    // A request that a proxy asks about shows no page of ours.
    addProblems(
      route.schema,
      CREDENTIAL_PROBLEMS.filter((code) => !isForwarded || code !== 'session_changed'),
    )
  })
  if (!isForwarded) app.addHook('onSend', expireRefusedCookie)
  app.decorateRequest('session')
  app.decorateRequest('provenAt', 0)
  app.addHook('onRequest', async (request, reply) => {
    const now = system.now()
    const { logContext } = request
    if (isForwarded) logContext.isLive = false
    const credential = await readCredential(request, { tokens, config, checkSite }, now)
    const session = await find(credential, now)
    request.session = session
    request.provenAt = provenAtOf(session, 'claims' in credential ? credential.claims : undefined)
    logContext.companyId = session.companyId
    logContext.userId = session.userId
    logContext.sessionId = session.sessionId
    if (isForwarded) logContext.isLive = true
    await countRequest(request, reply)
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

export const sessionGuard = fp(plugin, {
  name: 'session-guard',
  dependencies: ['memory-limits', 'observe', 'responses'],
})
