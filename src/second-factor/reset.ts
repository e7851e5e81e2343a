import type { Transaction } from 'kysely'
import { cancelEmailChange } from '../company/identity-repository.ts'
import type { Database, EndReason } from '../database/schema.ts'
import { queueMail } from '../mail/service.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import type { System } from '../system.ts'
import type { MemberIds } from './context.ts'
import { clearPassword, deleteAllOf } from './reset-repository.ts'

/**
 * For a member who has lost their factors: factors and password are void, the sessions end, and a link is mailed to choose
 * another password (ASVS 6.4.4, 6.4.6: nobody else chooses it). Before, in a statement that waits for nothing of this
 * transaction, the caller makes older links void, and then holds the row of the member.
 */
export async function resetFactors(
  tx: Transaction<Database>,
  system: System,
  { companyId, userId, email: recipient }: MemberIds & { email: string },
  { reason, now }: { reason: Extract<EndReason, 'ended_by_admin' | 'ended_by_operator'>; now: number },
): Promise<void> {
  await deleteAllOf(tx, companyId, userId)
  await clearPassword(tx, companyId, userId)
  await cancelEmailChange(tx, companyId, userId)
  await endUserSessions(tx, companyId, userId, reason)
  await queueMail(tx, system, companyId, { kind: 'second_factors_reset', recipient, data: {}, now })
  await queueMail(tx, system, companyId, {
    kind: 'password_reset',
    recipient,
    data: { isPasswordVoid: true },
    now,
  })
}
