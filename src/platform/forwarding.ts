import { isInForce } from '../company/account.ts'
import { Problem, type ProblemCode, statusOf } from '../errors.ts'
import { requirePermission, type Session } from '../session/session.ts'
import { toWords } from './introspection.ts'

/** What a reverse proxy is told about the session of a request that it has received. */

interface Rights {
  permission?: string | undefined
  feature?: string | undefined
}

/** @throws Problem permission_denied, subscription_inactive, feature_not_in_plan */
export function requireRights(session: Session, { permission, feature }: Rights): void {
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
