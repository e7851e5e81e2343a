import { checkNewCompany, checkPassword } from '../company/checks.ts'
import type { Security } from '../company/policy-repository.ts'
import * as companies from '../company/service.ts'
import type { Context } from '../context.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { CompanyStatus, SecondFactorPolicy, SubscriptionStatus } from '../database/schema.ts'
import { detailsOf, holdPolicy, requireSecurity, storePolicy } from '../second-factor/policy.ts'
import { endCompanySessions } from '../session/ending-repository.ts'
import { auditOperator } from './audit.ts'
import { explainUnknownName } from './unknown-names.ts'

/** Acts of operators on companies and subscriptions; each is audited in its transaction. */

interface NewCompany {
  /** If this company exists, nothing is done, and the returned `userId` names no user. */
  companyId?: string | undefined
  name: string
  plan?: string | undefined
  adminEmail: string
  adminName?: string | undefined
  password: string
}

/**
 * Creates a company in trial, with an admin whose e-mail counts as verified.
 * @throws Problem invalid_request for a name, e-mail or password that is not accepted, or an unknown plan
 */
export async function createCompany(
  {
    db,
    hasher,
    system,
    isBreached,
  }: Pick<Context, 'db' | 'system' | 'isBreached'> & { hasher: PasswordHasher },
  { companyId: id, plan, password, ...given }: NewCompany,
): Promise<{ companyId: string; userId: string; email: string }> {
  const names = { companyName: given.name, name: given.adminName, email: given.adminEmail }
  const { companyName, name, email } = checkNewCompany(names)
  await checkPassword('password', password, { email, name, companyName }, { hasher, isBreached })
  const passwordHash = await hasher.hash(password)
  const now = new Date(system.now())
  const admin = { name, email, passwordHash, emailVerifiedAt: now, createdAt: now }
  const creation = db.transaction().execute(async (tx) => {
    const company = { companyId: id, companyName, plan, admin }
    const { isNew, companyId, userId } = await companies.openCompany(tx, system, company)
    const act = { action: 'company_create', subject: userId }
    if (isNew) await auditOperator(tx, system, companyId, now, act)
    return { companyId, userId, email }
  })
  return await creation.catch(explainUnknownName)
}

/**
 * Suspends a company and ends all its sessions, or resumes it.
 * @throws Problem not_found
 */
export async function changeCompanyStatus(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  status: CompanyStatus,
): Promise<void> {
  const now = new Date(system.now())
  const action = status === 'suspended' ? 'company_suspend' : 'company_resume'
  await db.transaction().execute(async (tx) => {
    await companies.changeCompanyStatus(tx, companyId, status)
    if (status === 'suspended') await endCompanySessions(tx, companyId, 'company_suspended')
    await auditOperator(tx, system, companyId, now, { action })
  })
}

/** @throws Problem not_found for an unknown company, invalid_request for an unknown plan */
export async function changeSubscription(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  change: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<void> {
  const now = new Date(system.now())
  const changing = db.transaction().execute(async (tx) => {
    await companies.changeSubscription(tx, companyId, change)
    await auditOperator(tx, system, companyId, now, { action: 'subscription_set' })
  })
  await changing.catch(explainUnknownName)
}

/**
 * The policy of a company on second factors, which is changed before if one is given.
 * @throws Problem not_found for an unknown company
 */
export async function companySecurity(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  policy: SecondFactorPolicy | undefined,
  now: number,
): Promise<Security> {
  if (policy !== undefined) {
    await db.transaction().execute(async (tx) => {
      const before = await holdPolicy(tx, companyId)
      if (before === policy) return
      await storePolicy(tx, system, companyId, { policy, now })
      const act = { action: 'security_policy', details: detailsOf(before, policy) }
      await auditOperator(tx, system, companyId, new Date(now), act)
    })
  }
  return await requireSecurity(db, companyId)
}
