import type { Transaction } from 'kysely'
import { noSuchCompany } from '../company/problems.ts'
import type { Executor } from '../database/connect.ts'
import type { Database, SecondFactorPolicy } from '../database/schema.ts'
import { queueMail } from '../mail/service.ts'
import type { System } from '../system.ts'
import * as repository from './policy-repository.ts'

/** The policy of a company: whose sessions must have proven a second factor. It holds from the next request on. */

/** @throws Problem not_found */
export async function requireSecurity(db: Executor, companyId: string): Promise<repository.Security> {
  const security = await repository.findSecurity(db, companyId)
  if (!security) throw noSuchCompany()
  return security
}

/**
 * Changes the policy and tells the admins. `confirm` says whether the actor may, once the company is held; `audit` appends
 * the entry. Nothing happens if it is that policy already.
 * @throws Problem not_found
 */
export async function changePolicy(
  tx: Transaction<Database>,
  system: System,
  companyId: string,
  { policy, ipAddress, now }: { policy: SecondFactorPolicy; ipAddress?: string; now: number },
  { confirm, audit }: { confirm(): Promise<void>; audit(details: object): Promise<void> },
): Promise<void> {
  const before = await repository.holdPolicy(tx, companyId)
  if (before === undefined) throw noSuchCompany()
  await confirm()
  if (before === policy) return
  await repository.storePolicy(tx, companyId, policy)
  for (const recipient of await repository.listAdminEmails(tx, companyId))
    await queueMail(tx, system, companyId, {
      kind: 'security_policy_changed',
      recipient,
      data: { ipAddress, policy },
      now,
    })
  await audit({ before: { secondFactor: before }, after: { secondFactor: policy } })
}
