import { Problem } from '../errors.ts'
import { hasSecondFactor, type Session } from './session.ts'

/**
 * Recent proof: what could do lasting harm asks the user to have proven who they are a short time ago, and not only to
 * have a session (ASVS 7.5.1, 7.5.3). Servers of a company have no one to ask, so it is not asked of them.
 */

const RECENT_MS = 15 * 60_000

/**
 * The proof is what sign-in would ask for: a session without a second factor is no proof for a user who has one.
 * @throws Problem reauthentication_required
 */
export function requireRecentProof(
  { session, provenAt }: { session: Pick<Session, 'userKind' | 'amr' | 'secondFactors'>; provenAt: number },
  now: number,
): void {
  const isWhole = session.secondFactors.length === 0 || hasSecondFactor(session)
  if (session.userKind === 'service' || (isWhole && now - provenAt <= RECENT_MS)) return
  throw new Problem(
    'reauthentication_required',
    'This needs you to prove again who you are, since that was more than 15 minutes ago, or without your second factor: POST /auth/reauthenticate, then try again.',
  )
}
