import type { FastifyReply, FastifyRequest } from 'fastify'
import { Problem } from '../errors.ts'

/** The cookies of sessions and devices (RFC 6265bis): no script reads them, no other site sends them, no subdomain sets them. */

export const COOKIE_NAME = '__Host-session'
/** It opens nothing: it says that somebody has signed in with this browser. See known-clients.ts. */
const DEVICE_COOKIE_NAME = '__Host-device'
/** As long as a device is known: sign-in/known-clients.ts. */
const DEVICE_MAX_AGE_SECONDS = 90 * 86_400
const ATTRIBUTES = { path: '/', secure: true, httpOnly: true, sameSite: 'strict' } as const

export function setSessionCookie(reply: FastifyReply, cookie: string): void {
  reply.setCookie(COOKIE_NAME, cookie, ATTRIBUTES)
}

/** Not all cookies (ASVS 14.3.1): that would delete those of sibling domains, and the device cookie. */
export function clearSessionCookie(reply: FastifyReply): void {
  reply.clearCookie(COOKIE_NAME, ATTRIBUTES)
  reply.header('clear-site-data', '"cache"')
}

export function setDeviceCookie(reply: FastifyReply, device: string): void {
  reply.setCookie(DEVICE_COOKIE_NAME, device, { ...ATTRIBUTES, maxAge: DEVICE_MAX_AGE_SECONDS })
}

export function readDeviceCookie(request: FastifyRequest): string | undefined {
  const [device, ...others] = readCookies(request, DEVICE_COOKIE_NAME)
  return others.length > 0 ? undefined : device
}

export function readSessionCookies(request: FastifyRequest): string[] {
  return readCookies(request, COOKIE_NAME)
}

/** The values of cookies with exactly this name: attackers can plant cookies whose names are almost the same. */
function readCookies({ headers }: FastifyRequest, name: string): string[] {
  const pairs = (headers.cookie ?? '').split(';')
  return pairs
    .map((pair) => pair.replace(/^[ \t]+/, ''))
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
}

/** Of two session cookies, an attacker planted one, and nothing shows which. @throws Problem invalid_token */
export function readSessionCookie(request: FastifyRequest): string | undefined {
  const [cookie, ...others] = readSessionCookies(request)
  if (others.length > 0)
    throw new Problem('invalid_token', 'There are two session cookies; clear them and sign in.')
  return cookie
}

/** Against requests that other sites make browsers send (ASVS 3.5.1). @throws Problem cross_site_request */
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

/** Whether the browser drops all cookies of the answer, because its page is of another site. */
export function isFromAnotherSite({ headers }: FastifyRequest): boolean {
  return headers['sec-fetch-site'] === 'cross-site'
}
