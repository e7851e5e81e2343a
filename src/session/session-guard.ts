import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../config.ts'
import { Problem } from '../errors.ts'
import { headerValues } from '../http/framing.ts'
import type { System } from '../system.ts'
import { COOKIE_NAME, readSessionCookie, requireSameSite } from './cookie.ts'
import type { Sessions, SessionWithAccount } from './service.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller's session with their rights, read from the database for this request. Behind the guard. */
    caller: SessionWithAccount
  }
}

interface Options {
  config: Config
  sessions: Sessions
  system: System
}

/** Lets in who has a live session: by access token, or by cookie from one of our own pages. */
async function plugin(app: FastifyInstance, { config, sessions, system }: Options): Promise<void> {
  const countRequest = app.limits.perSubject(config.limits.session, (request) => request.caller.session_id)
  app.decorateRequest('caller')
  app.addHook('onRequest', async (request, reply) => {
    const caller = await authenticate(request)
    request.caller = caller
    const { facts } = request
    facts.companyId = caller.company_id
    facts.userId = caller.user_id
    facts.sessionId = caller.session_id
    await countRequest(request, reply)
  })

  async function authenticate(request: FastifyRequest): Promise<SessionWithAccount> {
    const now = system.now()
    const cookie = readSessionCookie(request)
    if (cookie === undefined)
      return await sessions.check(await app.tokens.verifyAccess(readBearer(request), now), now)
    if (request.headers.authorization !== undefined) {
      throw new Problem('invalid_request', `Send the access token or the ${COOKIE_NAME} cookie, not both.`, {
        errors: [{ path: '/headers/authorization', message: 'must not come with the session cookie' }],
      })
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') requireSameSite(request, config)
    return await sessions.checkCookie(cookie, now)
  }
}

/**
 * The token of the one `Authorization: Bearer` header (RFC 6750, section 2.1).
 * @throws Problem missing_credentials
 */
export function readBearer(request: FastifyRequest): string {
  const [token = '', ...others] = headerValues(request.raw, 'authorization')
  const [, bearer] = /^Bearer +(\S+)$/i.exec(token) ?? []
  if (!bearer || others.length > 0) {
    throw new Problem('missing_credentials', 'Send one header `Authorization: Bearer <token>`.')
  }
  return bearer
}

export const sessionGuard = fp(plugin, { name: 'session-guard', dependencies: ['limits', 'tokens'] })
