import type { Static } from '@sinclair/typebox'
import { cancelEmailChange } from '../company/identity-repository.ts'
import * as repository from '../company/repository.ts'
import { noSuchCompany } from '../company/service.ts'
import type { Executor, Tx } from '../database/connect.ts'
import { type EndReason, invalidField } from '../errors.ts'
import { type Act, type ActContext, type Actor, type Operator, perform } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { clearPassword, deleteAllOf } from './reset-repository.ts'
import type { PolicyBody } from './schemas.ts'

/** Admins and operators set second-factor policy and session limits, which take effect on the next request, and reset factors. */

/** @throws Problem not_found */
export async function requireSecurity(db: Executor, companyId: string): Promise<repository.Security> {
  const security = await repository.findSecurity(db, companyId)
  if (!security) throw noSuchCompany()
  return security
}

async function lockSecurity(tx: Tx, companyId: string): Promise<repository.SecuritySettings> {
  const settings = await repository.lockSecurity(tx, companyId)
  if (!settings) throw noSuchCompany()
  return settings
}

export type SecurityChange = Static<typeof PolicyBody>

/** @throws Problem permission_denied, session_ended, not_found, invalid_request */
export async function changeSecurity(context: ActContext, actor: Actor | Operator, change: SecurityChange) {
  const terms = { permission: 'members:manage', lock: lockSecurity }
  await perform(context, actor, terms, async ({ tx, companyId, audit, mailAdmins }, before) => {
    const after = { ...before, ...change }
    requireOrder(after, change)
    const names = (['secondFactor', 'sessionIdleSeconds', 'sessionMaxAgeSeconds'] as const).filter(
      (name) => after[name] !== before[name],
    )
    if (names.length === 0) return
    await repository.updateCompany(tx, companyId, {
      second_factor_policy: after.secondFactor,
      session_idle_seconds: after.sessionIdleSeconds,
      session_max_age_seconds: after.sessionMaxAgeSeconds,
    })
    const policy = after.secondFactor
    if (policy !== before.secondFactor)
      await mailAdmins({ kind: 'security_policy_changed', data: { policy } })
    const changed = (of: repository.SecuritySettings) =>
      Object.fromEntries(names.map((name) => [name, of[name]]))
    await audit('security_policy', { details: { before: changed(before), after: changed(after) } })
  })
}

/** @throws Problem invalid_request */
function requireOrder(
  { sessionIdleSeconds: idle, sessionMaxAgeSeconds: maxAge }: repository.SecuritySettings,
  change: SecurityChange,
): void {
  if (idle === null || maxAge === null || idle <= maxAge) return
  const [field, message] =
    change.sessionMaxAgeSeconds === undefined
      ? ['sessionIdleSeconds', `must be at most the maximum age of ${maxAge} seconds`]
      : ['sessionMaxAgeSeconds', `must be at least the idle limit of ${idle} seconds`]
  const detail = `The idle limit of ${idle} seconds is longer than the maximum age of ${maxAge} seconds. Change one of them.`
  throw invalidField(field, message, detail)
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
