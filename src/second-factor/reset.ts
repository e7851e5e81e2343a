import { cancelEmailChange } from '../company/identity-repository.ts'
import type { EndReason } from '../errors.ts'
import type { Act } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { clearPassword, deleteAllOf } from './reset-repository.ts'

/**
 * For a member who has lost their factors: factors and password are void, and only a mailed link sets another password
 * (ASVS 6.4.4, 6.4.6). Before it, the caller makes older links void, and then locks the member: mails come before users.
 */
export async function resetFactors(
  { tx, companyId, mail }: Act,
  { userId, email: recipient }: { userId: string; email: string },
  reason: Extract<EndReason, 'ended_by_admin' | 'ended_by_operator'>,
): Promise<void> {
  await deleteAllOf(tx, companyId, userId)
  await clearPassword(tx, companyId, userId)
  await cancelEmailChange(tx, companyId, userId)
  await endUserSessions(tx, companyId, userId, reason)
  await mail({ kind: 'second_factors_reset', recipient, data: {} })
  await mail({ kind: 'password_reset', recipient, data: { isPasswordVoid: true } })
}
