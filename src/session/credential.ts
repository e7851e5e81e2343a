import type { FastifyRequest } from 'fastify'
import type { Context } from '../context.ts'
import { Problem, type ProblemCode } from '../errors.ts'
import type { VerifiedClaims } from '../token/service.ts'
import { readBearer } from './bearer.ts'
import { COOKIE_NAME, readSessionCookie, requireSameSite } from './cookie.ts'

/** What a request proves its session with. Only the database says whether that is live. */
export type Credential = { claims: VerifiedClaims } | { cookie: string }

/** The problems of routes that ask for a credential. */
export const CREDENTIAL_PROBLEMS: ProblemCode[] = [
  'missing_credentials',
  'invalid_token',
  'token_expired',
  'session_ended',
  'cross_site_request',
]

/**
 * Reads the credential of a request, and verifies an access token.
 * @throws Problem missing_credentials, invalid_token, token_expired, invalid_request, cross_site_request
 */
export async function readCredential(
  request: FastifyRequest,
  { tokens, config }: Pick<Context, 'tokens' | 'config'>,
  now: number,
): Promise<Credential> {
  const cookie = readSessionCookie(request)
  if (cookie === undefined) return { claims: await tokens.verifyAccess(readBearer(request), now) }
  if (request.headers.authorization !== undefined) {
    throw new Problem('invalid_request', `Send the access token or the ${COOKIE_NAME} cookie, not both.`, {
      errors: [{ path: '/headers/authorization', message: 'must not come with the session cookie' }],
    })
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') requireSameSite(request, config)
  return { cookie }
}
