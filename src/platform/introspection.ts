import { isInForce } from '../company/account.ts'
import { Problem, type ProblemCode, statusOf } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { SessionLookUp } from '../session/look-up.ts'
import { logContextOf, mustEnroll, provenAtOf, requirePermission, type Session } from '../session/session.ts'
import { ACCESS_AUDIENCE, issuerOf } from '../token/claims.ts'
import type { VerifiedClaims } from '../token/plugin.ts'

/** What a credential of a session allows at this moment, for services (RFC 7662) and for reverse proxies. */

const INACTIVE = { active: false }

/** Of a credential that is none, or not any more. Everything else is a fault, of which nobody is told to be inactive. */
const REFUSALS: ProblemCode[] = ['invalid_token', 'token_expired', 'session_ended']

export function createIntrospection({
  config,
  tokens,
  sessions,
}: Pick<Context, 'config' | 'tokens'> & { sessions: SessionLookUp }) {
  const issued = { iss: issuerOf(config), aud: ACCESS_AUDIENCE }

  /** As a request with it would be, but a cookie is not renewed. @throws Problem, as the look-up does */
  async function find(text: string, now: number) {
    // A token has two dots, a cookie one at most: behind the name of its cell.
    if (text.split('.', 4).length !== 3) return { session: await sessions.byCookie(text, now) }
    const claims = await tokens.verifyAccess(text, now)
    return { claims, session: await sessions.byToken(claims, now) }
  }

  /** `found` is for the log: the service is told nothing of a session that is not active. */
  return async (text: string, now: number) => {
    try {
      const { session, claims } = await find(text, now)
      const found = { ...logContextOf(session), isLive: true }
      const reply = mustEnroll(session) ? INACTIVE : { ...describe(session, claims), ...issued }
      return { reply, found }
    } catch (error) {
      if (!(error instanceof Problem && REFUSALS.includes(error.code))) throw error
      const { code, extras } = error
      const { reason, logContext } = extras
      return { reply: INACTIVE, found: { ...logContext, code, ...(reason && { reason }), isLive: false } }
    }
  }
}

function describe(session: Session, claims: VerifiedClaims | undefined) {
  const { amr } = session
  const provenAt = provenAtOf(session, claims)
  return {
    active: true,
    ...(claims ? { token_type: 'Bearer', iat: claims.iat, exp: claims.exp } : ofCookie(session)),
    sub: session.userId,
    sid: session.sessionId,
    company_id: session.companyId,
    role: session.role,
    scope: toWords(session.permissions),
    subscription_status: session.subscriptionStatus,
    plan: session.plan,
    plan_features: session.features,
    ...(provenAt > 0 && { auth_time: toSeconds(provenAt) }),
    ...(amr && { amr }),
  }
}

/** The session ends when it has been idle, or when it is old, whichever is earlier. */
function ofCookie({ createdAt, expiresAt }: Session) {
  return {
    token_type: 'session_cookie',
    iat: toSeconds(createdAt.getTime()),
    exp: toSeconds(expiresAt.getTime()),
  }
}

/** With the code of RFC 6749 (sections 5.2 and 4.1.2.1), which libraries for introspection read. */
export function toOAuth({ code, message, extras }: Problem): Problem {
  return new Problem(code, message, { ...extras, error: OAUTH_ERRORS[code] ?? 'invalid_request' })
}

const OAUTH_ERRORS: Partial<Record<ProblemCode, string>> = {
  invalid_client: 'invalid_client',
  permission_denied: 'unauthorized_client',
  internal_error: 'server_error',
  overloaded: 'temporarily_unavailable',
  unavailable: 'temporarily_unavailable',
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000)
}

/** Separated by single spaces. What operators have stored in other forms in the tables of roles is left out. */
function toWords(names: string[]): string {
  return names.filter((name) => /^[!-~]+$/.test(name)).join(' ')
}

/** For a reverse proxy. @throws Problem permission_denied, subscription_inactive, feature_not_in_plan */
export function requireRights(
  session: Session,
  { permission, feature }: { permission?: string; feature?: string },
): void {
  if (permission !== undefined) requirePermission(session, permission)
  if (feature === undefined) return
  if (!isInForce(session)) throw new Problem('subscription_inactive', 'The subscription is not active.')
  if (!session.features.includes(feature))
    throw new Problem('feature_not_in_plan', `The plan of the company does not include ${feature}.`)
}

export function headersOf({ companyId, userId, sessionId, role, permissions }: Session) {
  return {
    'x-auth-company': companyId,
    'x-auth-user': userId,
    'x-auth-session': sessionId,
    // Never empty: Caddy before 2.11.2 would keep what the client sends.
    'x-auth-role': toWords([role]) || '-',
    'x-auth-permissions': toWords(permissions) || '-',
  }
}

/** nginx takes 401 and 403 for a refusal, and every other answer for a fault of ours. */
export function toForwarded({ code, message, extras }: Problem): Problem {
  const headers = { ...extras.headers, 'x-auth-error': code }
  return new Problem(code, message, { ...extras, headers, status: forwardedStatusOf(code) })
}

export function forwardedStatusOf(code: ProblemCode): number {
  const status = statusOf(code)
  return status === 401 || status >= 500 ? status : 403
}
