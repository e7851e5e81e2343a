import { type Account, isConcerned } from '../company/account.ts'
import { hasSecondFactor, type Session } from '../session/session.ts'

/** Whether a session is held: the policy of its company asks for a second factor, which it has not proven. */
export function isHeld(session: Session): boolean {
  return isConcerned(session) && !hasSecondFactor(session)
}

/**
 * Whether a user proves their mailbox before the first factor: they are asked for one, and the password alone, or a session
 * of before, could be in other hands by now.
 */
export function mustProveMailbox(
  user: Pick<Account, 'userKind' | 'role' | 'secondFactorPolicy' | 'secondFactors'>,
): boolean {
  return isConcerned(user) && user.secondFactors.length === 0
}
