import type { Account } from '../company/account.ts'
import type { RowOf } from '../database/columns.ts'
import type { EndReason } from '../database/schema.ts'
import { Problem } from '../errors.ts'

/** A session with its account, read in one statement, and the rule that decides whether it is live. */

export const SESSION_COLUMNS = {
  companyId: 'company_id',
  sessionId: 'session_id',
  userId: 'user_id',
  kind: 'kind',
  generation: 'generation',
  createdAt: 'created_at',
  issuedAt: 'issued_at',
  expiresAt: 'expires_at',
  maxExpiresAt: 'max_expires_at',
  provenAt: 'auth_time',
  amr: 'amr',
} as const

export type Session = RowOf<'sessions', typeof SESSION_COLUMNS> &
  Account & {
    /** Why a statement has ended it, alone or with all sessions of its user or company; null if none has. */
    endReason: EndReason | null
  }

/** When the user last proved who they are, in milliseconds; 0, which is never recent, if that is not known. */
export function provenAtOf({ provenAt }: Pick<Session, 'provenAt'>): number {
  return provenAt?.getTime() ?? 0
}

/** By which methods they did (RFC 8176). */
export function methodsOf({ amr }: Pick<Session, 'amr'>): string[] {
  return amr ?? ['pwd']
}

/** Whether a second factor was proven, as the policy of a company can ask for. */
export function hasSecondFactor(session: Pick<Session, 'amr'>): boolean {
  return methodsOf(session).includes('mfa')
}

/** What decides whether a session is live. */
export type EndState = Pick<Session, 'endReason' | 'expiresAt' | 'userStatus' | 'companyStatus'>

/** Returns the session if it is live. @throws Problem session_ended */
export function requireLive(session: Session, now: number): Session {
  const reason = endReasonOf(session, now)
  if (reason) throw sessionEnded(reason)
  return session
}

/** Why a session has ended; null if it is live. Expiry follows from the clock, so no statement stores it. */
export function endReasonOf(session: EndState, now: number): EndReason | null {
  if (session.endReason) return session.endReason
  if (session.expiresAt.getTime() <= now) return 'expired'
  if (session.userStatus !== 'active')
    return session.userStatus === 'deleted' ? 'user_deleted' : 'user_disabled'
  if (session.companyStatus !== 'active') return 'company_suspended'
  return null
}

export function sessionEnded(reason?: EndReason): Problem {
  return new Problem('session_ended', 'The session has ended; sign in again.', reason && { reason })
}

/** The part of a session that goes into log lines. */
export function logContextOf({ companyId, userId, sessionId }: Session) {
  return { companyId, userId, sessionId }
}
