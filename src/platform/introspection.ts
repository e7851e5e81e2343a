import { isInForce } from '../company/account.ts'
import { Problem, type ProblemCode, statusOf } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { SessionLookUp } from '../session/look-up.ts'
import { logContextOf, mustEnroll, provenAtOf, requirePermission, type Session } from '../session/session.ts'
import { ACCESS_AUDIENCE, issuerOf } from '../token/claims.ts'
import type { VerifiedClaims } from '../token/plugin.ts'
import type { VerifyQuery } from './schemas.ts'

/** Current rights of a session's credential, for services (RFC 7662) and reverse proxies. */

const INACTIVE = { active: false }

/** These codes mean inactive. Any other error is ours, and must not make a live session look inactive. */
const REFUSALS: ProblemCode[] = ['invalid_token', 'token_expired', 'session_ended']

type Options = Pick<Context, 'config' | 'tokens'> & { sessions: SessionLookUp }

export function createIntrospection({ config, tokens, sessions }: Options) {
  const issued = { iss: issuerOf(config), aud: ACCESS_AUDIENCE }

  /** Like a request with this credential, but without renewing a cookie. @throws Problem, from the look-up */
  async function find(text: string, now: number) {
    // A token has two dots, a cookie at most one, after the name of its cell.
    if (text.split('.', 4).length !== 3) return { session: await sessions.byCookie(text, now) }
    const claims = await tokens.verifyAccess(text, now)
    return { claims, session: await sessions.byToken(claims, now) }
  }

  /** `found` is for the log only: an inactive reply reveals nothing about the session. */
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
    ...(claims
      ? { token_type: 'Bearer', iat: claims.iat, exp: Math.min(claims.exp, endOf(session)) }
      : ofCookie(session)),
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

function ofCookie(session: Session) {
  const iat = toSeconds(session.createdAt.getTime())
  return { token_type: 'session_cookie', iat, exp: endOf(session) }
}

const endOf = ({ endsAt }: Session) => toSeconds(endsAt.getTime())

/** Adds the code of RFC 6749 (sections 5.2 and 4.1.2.1) that introspection libraries read. */
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

/** Space-separated, so names that operators stored with spaces or beyond ASCII are left out. */
function toWords(names: string[]): string {
  return names.filter((name) => /^[!-~]+$/.test(name)).join(' ')
}

/** @throws Problem permission_denied, subscription_inactive, feature_not_in_plan */
export function requireRights(session: Session, { permission, feature }: VerifyQuery): void {
  if (permission !== undefined) requirePermission(session, permission)
  if (feature === undefined) return
  if (!isInForce(session))
    throw new Problem('subscription_inactive', 'The subscription is canceled or suspended.')
  if (!session.features.includes(feature))
    throw new Problem('feature_not_in_plan', `The company's plan does not include the feature ${feature}.`)
}

export function headersOf({ companyId, userId, sessionId, role, permissions }: Session) {
  return {
    'x-auth-company': companyId,
    'x-auth-user': userId,
    'x-auth-session': sessionId,
    // Never empty: Caddy before 2.11.2 would then keep the client's own header.
    'x-auth-role': toWords([role]) || '-',
    'x-auth-permissions': toWords(permissions) || '-',
  }
}

/** nginx treats 401 and 403 as refusals, and every other status as a server error. */
export function toForwarded({ code, message, extras }: Problem): Problem {
  const headers = { ...extras.headers, 'x-auth-error': code }
  return new Problem(code, message, { ...extras, headers, status: forwardedStatusOf(code) })
}

export function forwardedStatusOf(code: ProblemCode): number {
  const status = statusOf(code)
  return status === 401 || status >= 500 ? status : 403
}
