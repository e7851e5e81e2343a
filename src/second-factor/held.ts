import { isConcerned } from '../company/account.ts'
import { hasSecondFactor, type Session } from '../session/session.ts'

/** Whether a session is held: the policy of its company asks for a second factor, which it has not proven. */
export function isHeld(session: Session): boolean {
  return isConcerned(session) && !hasSecondFactor(session)
}

/** Whether the user must prove their mailbox before the first factor: a password alone could be somebody else's by now. */
export function mustProveMailbox(session: Session): boolean {
  return isHeld(session) && session.secondFactors.length === 0
}
