import type { FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import { headerValues } from '../edge/framing.ts'
import { Problem, type ProblemCode } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { VerifiedClaims } from '../token/plugin.ts'

/** The cookies of sessions and devices (RFC 6265bis): no script reads them, no other site sends them, no subdomain sets them. */

const COOKIE_NAME = '__Host-session'
/** It opens nothing: it says that somebody has signed in with this browser. See known-clients.ts. */
const DEVICE_COOKIE_NAME = '__Host-device'
/** As long as a device is known: known-clients.ts. */
const DEVICE_MAX_AGE_SECONDS = 90 * 86_400
const ATTRIBUTES = { path: '/', secure: true, httpOnly: true, sameSite: 'strict' } as const

export function setSessionCookie(reply: FastifyReply, cookie: string): void {
  reply.setCookie(COOKIE_NAME, cookie, ATTRIBUTES)
}

/** No Clear-Site-Data: `cookies` would delete those of sibling domains and the device cookie, and `cache` takes browsers seconds. */
export function clearSessionCookie(reply: FastifyReply): void {
  // Not by the plugin's clearCookie, which does nothing in an onSend hook.
  const gone = { ...ATTRIBUTES, expires: new Date(0), maxAge: 0 }
  reply.header('set-cookie', reply.server.serializeCookie(COOKIE_NAME, '', gone))
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

/**
 * For `onSend`. Without it, a browser sends a cookie that no longer works with every request. If the request names its session,
 * the cookie stays: a re-authentication may have replaced it in the meantime, and this response would expire the new one.
 */
export const expireRefusedCookie: onSendHookHandler = (request, reply, payload, done) => {
  // Behind the guard, the session can have got a new cookie in the meantime.
  const isRefused = reply.statusCode === 401 && request.session === undefined
  const isNamed = request.headers['x-session-id'] !== undefined
  if (isRefused && !isNamed && !hasAuthorization(request) && readSessionCookies(request).length > 0)
    clearSessionCookie(reply)
  done(null, payload)
}

/** Then the cookie is ignored: a browser adds it to requests that are meant for an access token. */
function hasAuthorization({ headers }: FastifyRequest): boolean {
  return headers.authorization !== undefined
}

/** Of the service and its pages. */
interface Site {
  publicUrl: string
  dashboardOrigins: string[]
}

/** Against requests that other sites make browsers send (ASVS 3.5.1). @throws Problem cross_site_request */
export function requireSameSite({ headers }: FastifyRequest, { publicUrl, dashboardOrigins }: Site): void {
  const { origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined && dashboardOrigins.includes(origin)) return
  if (site === undefined ? origin === undefined || origin === publicUrl : site === 'same-origin') return
  throw crossSite('The request comes from a page of another site, which may not use cookies.')
}

const SAFE_METHODS = ['GET', 'HEAD']

/** Reading needs no protection. @throws Problem cross_site_request */
export function requireSameSiteToChange(request: FastifyRequest, site: Site): void {
  if (!SAFE_METHODS.includes(request.method)) requireSameSite(request, site)
}

/** The headers in which proxies name the method of a request that they ask about. */
const METHOD_HEADERS = ['x-original-method', 'x-forwarded-method']

/**
 * The same, where a proxy asks about a request. It can forget to pass a header on, so only a method that is named, once, is
 * safe, and a request that says nothing about its page does not pass. @throws Problem cross_site_request
 */
export function requireSameSiteToForward(request: FastifyRequest, site: Site): void {
  const named = METHOD_HEADERS.map((name) => headerValues(request.raw, name))
  const isClear = named.every((methods) => methods.length < 2) && new Set(named.flat()).size === 1
  if (isClear && SAFE_METHODS.includes(named.flat()[0] ?? '') && !isHandshake(request)) return
  const { origin, 'sec-fetch-site': fetchSite } = request.headers
  if (origin === undefined && fetchSite === undefined)
    throw crossSite(
      'The request is not known to be a plain GET or HEAD, and has neither Origin nor Sec-Fetch-Site. Check which headers the proxy passes on.',
    )
  requireSameSite(request, site)
}

/** A WebSocket opens by GET, and no browser keeps other sites from it. What follows can change anything (RFC 6455, section 10.2). */
function isHandshake({ headers }: FastifyRequest): boolean {
  return (
    headers.upgrade !== undefined ||
    headers['sec-websocket-key'] !== undefined ||
    headers['sec-fetch-mode'] === 'websocket'
  )
}

function crossSite(detail: string): Problem {
  return new Problem('cross_site_request', detail)
}

/** Whether the browser drops all cookies of the answer, because its page is of another site. */
export function isFromAnotherSite({ headers }: FastifyRequest): boolean {
  return headers['sec-fetch-site'] === 'cross-site'
}

/** What names the session of a request. Only the database says whether that is live. */
export type Credential = { claims: VerifiedClaims } | CookieCredential

interface CookieCredential {
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
