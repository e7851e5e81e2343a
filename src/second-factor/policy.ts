import { cancelEmailChange } from '../company/identity-repository.ts'
import * as repository from '../company/repository.ts'
import { noSuchCompany } from '../company/service.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { SecondFactorPolicy } from '../database/schema.ts'
import type { EndReason } from '../errors.ts'
import { type Act, type ActContext, type Actor, type Operator, perform } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { clearPassword, deleteAllOf } from './reset-repository.ts'

/** Admins and operators set the second-factor policy, which takes effect on the next request, and reset factors. */

/** @throws Problem not_found */
export async function requireSecurity(db: Executor, companyId: string): Promise<repository.Security> {
  const security = await repository.findSecurity(db, companyId)
  if (!security) throw noSuchCompany()
  return security
}

async function lockPolicy(tx: Tx, companyId: string): Promise<SecondFactorPolicy> {
  const policy = await repository.lockPolicy(tx, companyId)
  if (policy === undefined) throw noSuchCompany()
  return policy
}

/** @throws Problem permission_denied, session_ended, not_found */
export async function changePolicy(context: ActContext, actor: Actor | Operator, policy: SecondFactorPolicy) {
  const terms = { permission: 'members:manage', lock: lockPolicy }
  await perform(context, actor, terms, async ({ tx, companyId, audit, mailAdmins }, before) => {
    if (before === policy) return
    await repository.updateCompany(tx, companyId, { second_factor_policy: policy })
    await mailAdmins({ kind: 'security_policy_changed', data: { policy } })
    const details = { before: { secondFactor: before }, after: { secondFactor: policy } }
    await audit('security_policy', { details })
  })
}

/**
 * Factors and password stop working, and only an emailed link sets a new password (ASVS 6.4.4, 6.4.6). The caller first
 * invalidates previous links, then locks the member: emails are locked before users.
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
