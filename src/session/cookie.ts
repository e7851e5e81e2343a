import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../errors.ts'

/** The session cookie (RFC 6265bis): no script can read it, no other site send it, no subdomain set it. */

export const COOKIE_NAME = '__Host-session'
// Spaces before the name do not belong to it; any other character there makes it another cookie.
const PAIR = new RegExp(`^[ \\t]*${COOKIE_NAME}=(.*)$`)
const ATTRIBUTES = { path: '/', secure: true, httpOnly: true, sameSite: 'strict' } as const

export function setSessionCookie(reply: FastifyReply, cookie: string): void {
  reply.setCookie(COOKIE_NAME, cookie, ATTRIBUTES)
}

/** Makes the browser delete the cookie and the data that pages stored (ASVS 14.3.1). */
export function clearSessionCookie(reply: FastifyReply): void {
  reply.clearCookie(COOKIE_NAME, ATTRIBUTES)
  reply.header('clear-site-data', '"cookies", "storage"')
}

/** The values of cookies with exactly this name: attackers can plant cookies with almost the same name. */
export function readSessionCookies({ headers }: FastifyRequest): string[] {
  return (headers.cookie ?? '').split(';').flatMap((pair) => {
    const [, value] = PAIR.exec(pair) ?? []
    return value === undefined ? [] : [value]
  })
}

/**
 * The session cookie of a request. Of two, an attacker planted one, and the service cannot know which.
 * @throws Problem invalid_token
 */
export function readSessionCookie(request: FastifyRequest): string | undefined {
  const [cookie, ...others] = readSessionCookies(request)
  if (others.length > 0)
    throw new Problem('invalid_token', 'There are two session cookies; clear them and sign in.')
  return cookie
}

/**
 * Refuses requests that another site made a browser send (ASVS 3.5.1). A request with neither header does not
 * come from a browser that supports these cookies. The session guard calls it for all methods but GET and HEAD,
 * and sign-in calls it in cookie mode.
 * @throws Problem cross_site_request
 */
export function requireSameSite(
  { headers }: FastifyRequest,
  { publicUrl, dashboardOrigins }: { publicUrl: string; dashboardOrigins: string[] },
): void {
  const { origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined && dashboardOrigins.includes(origin)) return
  if (site === undefined ? origin === undefined || origin === publicUrl : site === 'same-origin') return
  throw new Problem(
    'cross_site_request',
    'The request comes from a page of another site, which may not use cookies.',
  )
}

/** Whether the page is of another site than this service, so that no cookie of the answer is stored. */
export function isFromAnotherSite({ headers }: FastifyRequest): boolean {
  return headers['sec-fetch-site'] === 'cross-site'
}
