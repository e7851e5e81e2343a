import { type Account, isConcerned } from '../company/account.ts'
import type { RowOf } from '../database/columns.ts'
import { type EndReason, Problem, type RefusalContext } from '../errors.ts'
import type { Context } from '../http/context.ts'

/** A session and its account, read in one statement; the rules about them; and the tokens and replies for clients. */

export const CHANGING_COLUMNS = {
  generation: 'generation',
  issuedAt: 'issued_at',
  expiresAt: 'expires_at',
  provenAt: 'auth_time',
  amr: 'amr',
} as const

export const SESSION_COLUMNS = {
  companyId: 'company_id',
  sessionId: 'session_id',
  userId: 'user_id',
  kind: 'kind',
  createdAt: 'created_at',
  maxExpiresAt: 'max_expires_at',
  ...CHANGING_COLUMNS,
} as const

export type Session = RowOf<'sessions', typeof SESSION_COLUMNS> &
  Account & {
    /** Null if no statement has ended it. */
    endReason: EndReason | null
    /** `expiresAt`, or earlier by the company's limits. */
    endsAt: Date
  }

export type SessionIds = Pick<Session, 'companyId' | 'userId' | 'sessionId'>

/** In milliseconds, or 0, which is never recent. The older one counts, so earlier tokens gain nothing. */
export function provenAtOf({ provenAt }: Pick<Session, 'provenAt'>, claims?: { auth_time?: number }): number {
  const ofSession = provenAt?.getTime() ?? 0
  return claims ? Math.min((claims.auth_time ?? 0) * 1000, ofSession) : ofSession
}

/** RFC 8176 */
export function methodsOf({ amr }: Pick<Session, 'amr'>): string[] {
  return amr ?? ['pwd']
}

function hasSecondFactor(session: Pick<Session, 'amr'>): boolean {
  return methodsOf(session).includes('mfa')
}

/** Whether the company's policy requires a second factor that the session has not used. */
export function mustEnroll(session: Session): boolean {
  return isConcerned(session) && !hasSecondFactor(session)
}

/** @throws Problem permission_denied */
export function requirePermission({ permissions }: Pick<Session, 'permissions'>, permission: string): void {
  if (permissions.includes(permission)) return
  throw new Problem(
    'permission_denied',
    `Your role does not have the permission ${permission}. Ask an admin of your company for access.`,
  )
}

const RECENT_MS = 15 * 60_000

/** For lasting changes (ASVS 7.5.1, 7.5.3). Service accounts have no one to prompt. @throws Problem reauthentication_required */
export function requireRecentAuthentication(
  { session, provenAt }: { session: Pick<Session, 'userKind' | 'amr' | 'secondFactors'>; provenAt: number },
  now: number,
): void {
  const isWhole = session.secondFactors.length === 0 || hasSecondFactor(session)
  if (session.userKind === 'service' || (isWhole && now - provenAt <= RECENT_MS)) return
  throw new Problem(
    'reauthentication_required',
    'This request requires authentication within the last 15 minutes, with your second factor if you have one. Call POST /auth/reauthenticate, then retry.',
  )
}

export function isActive(account: Pick<Account, 'userStatus' | 'companyStatus'>): boolean {
  return account.userStatus === 'active' && account.companyStatus === 'active'
}

export type EndState = Pick<Session, 'endReason' | 'endsAt' | 'userStatus' | 'companyStatus'>

/** @throws Problem session_ended */
export function requireLive(session: Session, now: number): Session {
  const reason = endReasonOf(session, now)
  if (reason) throw sessionEnded(reason, logContextOf(session))
  return session
}

/** Null if the session is live. Expiry follows from the clock, so no statement stores it. */
export function endReasonOf(session: EndState, now: number): EndReason | null {
  if (session.endReason) return session.endReason
  if (session.endsAt.getTime() <= now) return 'expired'
  if (session.userStatus !== 'active')
    return session.userStatus === 'deleted' ? 'user_deleted' : 'user_disabled'
  if (session.companyStatus !== 'active') return 'company_suspended'
  return null
}

export function sessionEnded(reason?: EndReason, logContext: RefusalContext = {}): Problem {
  const extras = { logContext, ...(reason && { reason }) }
  return new Problem('session_ended', 'The session has ended. Sign in again.', extras)
}

export function logContextOf({ companyId, userId, sessionId }: SessionIds): SessionIds {
  return { companyId, userId, sessionId }
}

export type IssuedTokens = Awaited<ReturnType<typeof issueTokens>>

/**
 * All claims of the refresh token come from the row, so a repeat issues the same bytes, and a company can raise its limits
 * later. Lifetimes are in seconds.
 */
export async function issueTokens(
  { tokens, config }: Pick<Context, 'tokens' | 'config'>,
  session: Session,
  now: number,
) {
  const owner = { sub: session.userId, cid: session.companyId, sid: session.sessionId }
  const nowSeconds = toSeconds(now)
  const end = toSeconds(session.endsAt.getTime())
  const accessExp = Math.min(nowSeconds + config.accessTokenTtlSeconds, end)
  const refreshToken = tokens.signRefresh({
    ...owner,
    gen: session.generation,
    iat: toSeconds(session.issuedAt.getTime()),
    exp: toSeconds(session.expiresAt.getTime()),
  })
  const accessToken = await tokens.signAccess(
    {
      ...owner,
      role: session.role,
      perms: session.permissions,
      // RFC 9068, section 2.2.1
      ...(session.amr && { amr: session.amr }),
      ...(session.provenAt && { auth_time: toSeconds(session.provenAt.getTime()) }),
      iat: nowSeconds,
      exp: accessExp,
    },
    now,
  )
  return {
    accessToken,
    refreshToken,
    expiresIn: accessExp - nowSeconds,
    refreshExpiresIn: end - nowSeconds,
  }
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000)
}

export function toSessionReply(session: Session) {
  return {
    session: {
      id: session.sessionId,
      createdAt: session.createdAt.toISOString(),
      expiresAt: session.endsAt.toISOString(),
    },
    user: { id: session.userId, email: session.email, name: session.name, role: session.role },
    subscription: {
      status: session.subscriptionStatus,
      plan: session.plan,
      currentPeriodEnd: session.currentPeriodEnd.toISOString(),
    },
    planFeatures: session.features,
    permissions: session.permissions,
    accessContext: {
      companyId: session.companyId,
      companyHandle: session.companyHandle,
      companyName: session.companyName,
      role: session.role,
      assignments: session.assignments,
    },
  }
}

export function toTokenReply(session: Session, tokens: IssuedTokens) {
  return { ...tokens, tokenType: 'Bearer' as const, ...toSessionReply(session) }
}
