import { type Account, isConcerned } from '../company/account.ts'
import { hasSecondFactor, type Session } from './session.ts'

/** Whether a session is held: the policy of its company asks for a second factor, which it has not proven. */
export function isHeld(session: Session): boolean {
  return isConcerned(session) && !hasSecondFactor(session)
}

/**
 * Whether a user proves their mailbox before the first factor and before another e-mail: the password alone, which somebody
 * else can know, would otherwise become a lasting hold on the account.
 */
export function mustProveMailbox({
  userKind,
  secondFactors,
}: Pick<Account, 'userKind' | 'secondFactors'>): boolean {
  return userKind === 'person' && secondFactors.length === 0
}
