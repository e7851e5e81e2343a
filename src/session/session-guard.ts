import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { addProblems } from '../http/responses.ts'
import type { System } from '../system.ts'
import { CREDENTIAL_PROBLEMS, readCredential } from './credential.ts'
import type { SessionLookUp } from './look-up.ts'
import type { Session } from './session.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Read from the database for this request, with the rights of the user. Set by the session guard. */
    session: Session
  }
}

interface Options {
  config: Config
  sessions: SessionLookUp
  system: System
}

/** Admits live sessions: by access token, or by cookie from a page of the service or a dashboard origin. */
async function plugin(app: FastifyInstance, { config, sessions, system }: Options): Promise<void> {
  const countRequest = app.limits.perSubject(config.limits.session, ({ session }) => [session.sessionId])
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ accessToken: [] }, { sessionCookie: [] }]
    addProblems(route.schema, CREDENTIAL_PROBLEMS)
  })
  app.decorateRequest('session')
  app.addHook('onRequest', async (request, reply) => {
    const session = await authenticate(request)
    request.session = session
    const { logContext } = request
    logContext.companyId = session.companyId
    logContext.userId = session.userId
    logContext.sessionId = session.sessionId
    await countRequest(request, reply)
  })

  async function authenticate(request: FastifyRequest): Promise<Session> {
    const now = system.now()
    const credential = await readCredential(request, { tokens: app.tokens, config }, now)
    return 'claims' in credential
      ? await sessions.byToken(credential.claims, now)
      : await sessions.byCookie(credential.cookie, now)
  }
}

export const sessionGuard = fp(plugin, {
  name: 'session-guard',
  dependencies: ['memory-limits', 'observe', 'responses', 'tokens'],
})
