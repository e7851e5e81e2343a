import * as repository from '../company/repository.ts'
import { noSuchCompany } from '../company/service.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { SecondFactorPolicy } from '../database/schema.ts'
import { type ActContext, type Actor, type Operator, perform } from '../session/acts.ts'

/** The policy of a company says whose sessions must have proven a second factor. It takes effect at the next request. */

/** @throws Problem not_found */
export async function requireSecurity(db: Executor, companyId: string): Promise<repository.Security> {
  const security = await repository.findSecurity(db, companyId)
  if (!security) throw noSuchCompany()
  return security
}

/** @throws Problem not_found */
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
    await repository.storePolicy(tx, companyId, policy)
    await mailAdmins({ kind: 'security_policy_changed', data: { policy } })
    const details = { before: { secondFactor: before }, after: { secondFactor: policy } }
    await audit('security_policy', { details })
  })
}
