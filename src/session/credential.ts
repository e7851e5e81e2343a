import type { FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify'
import { headerValues } from '../edge/framing.ts'
import { Problem, type ProblemCode } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { SESSION_COOKIE } from '../http/headers.ts'
import type { VerifiedClaims } from '../token/plugin.ts'

/** The cookies of sessions and devices (RFC 6265bis): no script reads them, no other site sends them, no subdomain sets them. */

/** Grants nothing: it marks a browser that someone signed in with. See known-clients.ts. */
const DEVICE_COOKIE = '__Host-device'
const DEVICE_MAX_AGE_SECONDS = 90 * 86_400
const ATTRIBUTES = { path: '/', secure: true, httpOnly: true, sameSite: 'strict' } as const

export function setSessionCookie(reply: FastifyReply, cookie: string): void {
  reply.setCookie(SESSION_COOKIE, cookie, ATTRIBUTES)
}

/** No Clear-Site-Data: `cookies` also deletes the device cookie and cookies of sibling domains, and `cache` takes seconds. */
export function clearSessionCookie(reply: FastifyReply): void {
  // The plugin's clearCookie does nothing in an onSend hook.
  const gone = { ...ATTRIBUTES, expires: new Date(0), maxAge: 0 }
  reply.header('set-cookie', reply.server.serializeCookie(SESSION_COOKIE, '', gone))
}

export function setDeviceCookie(reply: FastifyReply, device: string): void {
  reply.setCookie(DEVICE_COOKIE, device, { ...ATTRIBUTES, maxAge: DEVICE_MAX_AGE_SECONDS })
}

export function readDeviceCookie(request: FastifyRequest): string | undefined {
  const [device, ...others] = readCookies(request, DEVICE_COOKIE)
  return others.length > 0 ? undefined : device
}

export function readSessionCookies(request: FastifyRequest): string[] {
  return readCookies(request, SESSION_COOKIE)
}

/** Only exact names: attackers can plant cookies whose names are almost the same. */
function readCookies({ headers }: FastifyRequest, name: string): string[] {
  const pairs = (headers.cookie ?? '').split(';')
  return pairs
    .map((pair) => pair.replace(/^[ \t]+/, ''))
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
}

/** If there are two, an attacker may have planted either. @throws Problem invalid_token */
export function readSessionCookie(request: FastifyRequest): string | undefined {
  const [cookie, ...others] = readSessionCookies(request)
  if (others.length > 0)
    throw new Problem(
      'invalid_token',
      'The request has more than one session cookie. Clear your cookies and sign in again.',
    )
  return cookie
}

/** Otherwise browsers keep sending a cookie that no longer works. */
export const expireRefusedCookie: onSendHookHandler = (request, reply, payload, done) => {
  // If a request has a session or names one, a re-authentication may have set a new cookie, which this would expire.
  const isRefused = reply.statusCode === 401 && request.session === undefined
  const isNamed = request.headers['x-session-id'] !== undefined
  if (isRefused && !isNamed && !hasAuthorization(request) && readSessionCookies(request).length > 0)
    clearSessionCookie(reply)
  done(null, payload)
}

/** If true, the cookie is ignored, because browsers add it to requests with an access token. */
function hasAuthorization({ headers }: FastifyRequest): boolean {
  return headers.authorization !== undefined
}

interface Site {
  publicUrl: string
  dashboardOrigins: string[]
}

/** Against cross-site request forgery (ASVS 3.5.1). @throws Problem cross_site_request */
export function requireSameSite({ headers }: FastifyRequest, { publicUrl, dashboardOrigins }: Site): void {
  const { origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined && dashboardOrigins.includes(origin)) return
  if (site === undefined ? origin === undefined || origin === publicUrl : site === 'same-origin') return
  throw crossSite(
    'The request comes from a page on a different site. Send it from this site or from an allowed origin.',
  )
}

const SAFE_METHODS = ['GET', 'HEAD']

/** Reads need no protection. @throws Problem cross_site_request */
export function requireSameSiteToChange(request: FastifyRequest, site: Site): void {
  if (!SAFE_METHODS.includes(request.method)) requireSameSite(request, site)
}

const METHOD_HEADERS = ['x-original-method', 'x-forwarded-method']

/** Proxies can drop headers, so only a method that is safe and named once skips the check. @throws Problem cross_site_request */
export function requireSameSiteToForward(request: FastifyRequest, site: Site): void {
  const named = METHOD_HEADERS.map((name) => headerValues(request.raw, name))
  const isClear = named.every((methods) => methods.length < 2) && new Set(named.flat()).size === 1
  if (isClear && SAFE_METHODS.includes(named.flat()[0] ?? '') && !isHandshake(request)) return
  const { origin, 'sec-fetch-site': fetchSite } = request.headers
  if (origin === undefined && fetchSite === undefined)
    throw crossSite(
      'The proxy did not identify the request as a plain GET or HEAD, and it has neither Origin nor Sec-Fetch-Site. Check which headers the proxy forwards.',
    )
  requireSameSite(request, site)
}

/** Other sites can open a WebSocket with a GET request, and it can change anything (RFC 6455, section 10.2). */
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

/** If true, the browser drops all cookies of the response. */
export function isFromAnotherSite({ headers }: FastifyRequest): boolean {
  return headers['sec-fetch-site'] === 'cross-site'
}

/** Names a session. Only the database knows whether it is live. */
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

/** Several IDs or a malformed one match no session. */
function shownSessionIdOf({ headers }: FastifyRequest): string | null {
  return headers['x-session-id']?.toString().toLowerCase() ?? null
}

/** After a sign-in in a different tab, a page would act in a company that it does not show. */
export function sessionChanged(): Problem {
  return new Problem(
    'session_changed',
    'This browser is now signed in to a different session. Reload the page to see which one.',
  )
}

/** The token of the only `Authorization: Bearer` header (RFC 6750, section 2.1). */
export function bearerOf(request: FastifyRequest): string | undefined {
  const [token = '', ...others] = headerValues(request.raw, 'authorization')
  return others.length > 0 ? undefined : /^Bearer +(\S+)$/i.exec(token)?.[1]
}

/** @throws Problem missing_credentials */
export function readBearer(request: FastifyRequest): string {
  const bearer = bearerOf(request)
  if (bearer === undefined)
    throw new Problem(
      'missing_credentials',
      'The request has no valid Authorization header. Send one, as `Authorization: Bearer <token>`.',
    )
  return bearer
}
