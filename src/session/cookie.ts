import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../errors.ts'

/** The session cookie (RFC 6265bis): no script can read it, no other site send it, no subdomain set it. */

export const COOKIE_NAME = '__Host-session'
/** It opens nothing. It shows that somebody has signed in with this browser: see known-clients.ts. */
const DEVICE_COOKIE_NAME = '__Host-device'
const DEVICE_MAX_AGE_SECONDS = 90 * 86_400
const ATTRIBUTES = { path: '/', secure: true, httpOnly: true, sameSite: 'strict' } as const

export function setSessionCookie(reply: FastifyReply, cookie: string): void {
  reply.setCookie(COOKIE_NAME, cookie, ATTRIBUTES)
}

/**
 * Makes the browser delete the cookie and its copies of answers (ASVS 14.3.1). Not all cookies: that would reach
 * sibling domains, and the device cookie. Not the storage, where a page can remember the company.
 */
export function clearSessionCookie(reply: FastifyReply): void {
  reply.clearCookie(COOKIE_NAME, ATTRIBUTES)
  reply.header('clear-site-data', '"cache"')
}

export function setDeviceCookie(reply: FastifyReply, device: string): void {
  reply.setCookie(DEVICE_COOKIE_NAME, device, { ...ATTRIBUTES, maxAge: DEVICE_MAX_AGE_SECONDS })
}

/** The device cookie; undefined if there is none, or more than one. */
export function readDeviceCookie(request: FastifyRequest): string | undefined {
  const [device, ...others] = readCookies(request, DEVICE_COOKIE_NAME)
  return others.length > 0 ? undefined : device
}

export function readSessionCookies(request: FastifyRequest): string[] {
  return readCookies(request, COOKIE_NAME)
}

/** The values of cookies with exactly this name: attackers can plant cookies with almost the same name. */
function readCookies({ headers }: FastifyRequest, name: string): string[] {
  const pairs = (headers.cookie ?? '').split(';')
  // Spaces before the name do not belong to it; any other character there makes it another cookie.
  return pairs
    .map((pair) => pair.replace(/^[ \t]+/, ''))
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
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
