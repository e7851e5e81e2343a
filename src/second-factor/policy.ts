import type { Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import * as repository from '../company/policy-repository.ts'
import { noSuchCompany } from '../company/problems.ts'
import type { Context } from '../context.ts'
import type { Executor } from '../database/connect.ts'
import type { Database, SecondFactorPolicy } from '../database/schema.ts'
import { queueMail } from '../mail/service.ts'
import { countChange, requireActor } from '../session/acting.ts'
import type { Session } from '../session/session.ts'
import type { System } from '../system.ts'
import type { Received } from './context.ts'

/** The policy of a company: whose sessions must have proven a second factor. It holds from the next request on. */

/** @throws Problem not_found */
export async function requireSecurity(db: Executor, companyId: string): Promise<repository.Security> {
  const security = await repository.findSecurity(db, companyId)
  if (!security) throw noSuchCompany()
  return security
}

/** Holds the company, and returns its policy. @throws Problem not_found */
export async function holdPolicy(tx: Transaction<Database>, companyId: string): Promise<SecondFactorPolicy> {
  const policy = await repository.holdPolicy(tx, companyId)
  if (policy === undefined) throw noSuchCompany()
  return policy
}

/** Changes the policy of a company that is held, and tells its admins. */
export async function storePolicy(
  tx: Transaction<Database>,
  system: System,
  companyId: string,
  { policy, ipAddress, now }: { policy: SecondFactorPolicy; ipAddress?: string; now: number },
): Promise<void> {
  await repository.storePolicy(tx, companyId, policy)
  const mail = { kind: 'security_policy_changed', data: { ipAddress, policy }, now } as const
  for (const recipient of await repository.listAdminEmails(tx, companyId))
    await queueMail(tx, system, companyId, { ...mail, recipient })
}

/**
 * Changes the policy of the actor's company. One that is the same already changes nothing.
 * @throws Problem permission_denied, session_ended, rate_limited
 */
export async function changePolicy(
  { db, system, config, counters }: Context,
  session: Session,
  policy: SecondFactorPolicy,
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  const { companyId, userId: actor, sessionId } = session
  await countChange({ counters, config }, session, now)
  await db.transaction().execute(async (tx) => {
    const before = await holdPolicy(tx, companyId)
    await requireActor(tx, session, now, 'members:manage')
    if (before === policy) return
    await storePolicy(tx, system, companyId, { policy, ipAddress, now })
    const about = { action: 'security_policy', outcome: 'done', actor, sessionId, ipAddress }
    const details = detailsOf(before, policy)
    await appendAudit(tx, companyId, newEntry(system, new Date(now), { ...about, details }))
  })
}

/** What an audit entry says of a change. */
export function detailsOf(before: SecondFactorPolicy, after: SecondFactorPolicy) {
  return { before: { secondFactor: before }, after: { secondFactor: after } }
}
