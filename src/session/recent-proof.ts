import { Problem } from '../errors.ts'
import type { Session } from './session.ts'

/**
 * Recent proof: what could do lasting harm asks the user to have proven who they are a short time ago, and not only to
 * have a session (ASVS 7.5.1, 7.5.3). Servers of a company have no one to ask, so it is not asked of them.
 */

const RECENT_MS = 15 * 60_000

/** @throws Problem reauthentication_required */
export function requireRecentProof(
  { session, provenAt }: { session: Pick<Session, 'userKind'>; provenAt: number },
  now: number,
): void {
  if (session.userKind === 'service' || now - provenAt <= RECENT_MS) return
  throw new Problem(
    'reauthentication_required',
    'This needs your password again, since you gave it more than 15 minutes ago: POST /auth/reauthenticate, then try again.',
  )
}
