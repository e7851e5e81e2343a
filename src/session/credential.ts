import type { FastifyRequest } from 'fastify'
import { headerValues } from '../edge/framing.ts'
import { Problem, type ProblemCode } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { VerifiedClaims } from '../token/service.ts'
import { hasAuthorization, readSessionCookie, type requireSameSite } from './cookie.ts'

/** What names the session of a request. Only the database says whether that is live. */
export type Credential = { claims: VerifiedClaims } | CookieCredential

export interface CookieCredential {
  cookie: string
  /** Of the session that the page shows, if the page names it. */
  shownSessionId: string | null
}

export const CREDENTIAL_PROBLEMS: ProblemCode[] = [
  'missing_credentials',
  'invalid_token',
  'token_expired',
  'session_ended',
  'cross_site_request',
  'session_changed',
]

interface Options extends Pick<Context, 'tokens' | 'config'> {
  /** Of a request with the cookie. @throws Problem cross_site_request */
  checkSite: typeof requireSameSite
}

/** @throws Problem missing_credentials, invalid_token, token_expired, cross_site_request */
export async function readCredential(
  request: FastifyRequest,
  { tokens, config, checkSite }: Options,
  now: number,
): Promise<Credential> {
  const cookie = hasAuthorization(request) ? undefined : readSessionCookie(request)
  if (cookie === undefined) return { claims: await tokens.verifyAccess(readBearer(request), now) }
  checkSite(request, config)
  return { cookie, shownSessionId: shownSessionIdOf(request) }
}

/** Anything but one ID names no session, so it differs from all. */
function shownSessionIdOf({ headers }: FastifyRequest): string | null {
  return headers['x-session-id']?.toString().toLowerCase() ?? null
}

/** A sign-in in another tab replaces the cookie under a page, which would then act in a company that it does not show. */
export function sessionChanged(): Problem {
  return new Problem(
    'session_changed',
    'This browser is now signed in to a different session. Reload the page to see which one.',
  )
}

/** Of the only `Authorization: Bearer` header (RFC 6750, section 2.1). @throws Problem missing_credentials */
export function readBearer(request: FastifyRequest): string {
  const [token = '', ...others] = headerValues(request.raw, 'authorization')
  const [, bearer] = /^Bearer +(\S+)$/i.exec(token) ?? []
  if (!bearer || others.length > 0) {
    throw new Problem('missing_credentials', 'Send one header `Authorization: Bearer <token>`.')
  }
  return bearer
}
