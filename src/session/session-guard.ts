import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Problem, type ProblemCode } from '../errors.ts'
import { addProblems } from '../http/responses.ts'
import type { System } from '../system.ts'
import { readBearer } from './bearer.ts'
import { COOKIE_NAME, readSessionCookie, requireSameSite } from './cookie.ts'
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

/** The problems that the guard adds to each route. */
const PROBLEMS: ProblemCode[] = [
  'missing_credentials',
  'invalid_token',
  'token_expired',
  'session_ended',
  'cross_site_request',
]

/** Admits live sessions: by access token, or by cookie from a page of the service or a dashboard origin. */
async function plugin(app: FastifyInstance, { config, sessions, system }: Options): Promise<void> {
  const countRequest = app.limits.perSubject(config.limits.session, ({ session }) => [session.sessionId])
  app.addHook('onRoute', (route) => {
    route.schema ??= {}
    route.schema.security = [{ accessToken: [] }, { sessionCookie: [] }]
    addProblems(route.schema, PROBLEMS)
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
    const cookie = readSessionCookie(request)
    if (cookie === undefined)
      return await sessions.byToken(await app.tokens.verifyAccess(readBearer(request), now), now)
    if (request.headers.authorization !== undefined) {
      throw new Problem('invalid_request', `Send the access token or the ${COOKIE_NAME} cookie, not both.`, {
        errors: [{ path: '/headers/authorization', message: 'must not come with the session cookie' }],
      })
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') requireSameSite(request, config)
    return await sessions.byCookie(cookie, now)
  }
}

export const sessionGuard = fp(plugin, {
  name: 'session-guard',
  dependencies: ['memory-limits', 'observe', 'responses', 'tokens'],
})
