import { type ActContext, asOperator } from '../acts.ts'
import { checkNewCompany, checkPassword } from '../company/checks.ts'
import type { Security } from '../company/policy-repository.ts'
import * as companies from '../company/service.ts'
import type { Context } from '../context.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { CompanyStatus, SecondFactorPolicy, SubscriptionStatus } from '../database/schema.ts'
import { changePolicy, requireSecurity } from '../second-factor/policy.ts'
import { endCompanySessions } from '../session/ending-repository.ts'
import { newId } from '../system.ts'
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
  context: ActContext & Pick<Context, 'isBreached'> & { hasher: PasswordHasher },
  { companyId: id, plan, password, ...given }: NewCompany,
): Promise<{ companyId: string; userId: string; email: string }> {
  const { hasher, system } = context
  const names = { companyName: given.name, name: given.adminName, email: given.adminEmail }
  const { companyName, name, email } = checkNewCompany(names)
  await checkPassword('password', password, { email, name, companyName }, context)
  const passwordHash = await hasher.hash(password)
  const by = { companyId: id ?? newId(system), now: system.now() }
  const at = new Date(by.now)
  const admin = { name, email, passwordHash, emailVerifiedAt: at, createdAt: at }
  const creation = asOperator(context, by, async ({ tx, companyId, audit }) => {
    const company = { companyId, companyName, plan, admin }
    const { isNew, userId } = await companies.openCompany(tx, system, company)
    if (isNew) await audit('company_create', { subject: userId })
    return { companyId, userId, email }
  })
  return await creation.catch(explainUnknownName)
}

/**
 * Suspends a company and ends all its sessions, or resumes it.
 * @throws Problem not_found
 */
export async function changeCompanyStatus(
  context: ActContext,
  companyId: string,
  status: CompanyStatus,
): Promise<void> {
  const now = context.system.now()
  await asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    await companies.changeCompanyStatus(tx, companyId, status)
    if (status === 'suspended') await endCompanySessions(tx, companyId, 'company_suspended')
    await audit(status === 'suspended' ? 'company_suspend' : 'company_resume')
  })
}

/** @throws Problem not_found for an unknown company, invalid_request for an unknown plan */
export async function changeSubscription(
  context: ActContext,
  companyId: string,
  change: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<void> {
  const now = context.system.now()
  const changing = asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    await companies.changeSubscription(tx, companyId, change)
    await audit('subscription_set')
  })
  await changing.catch(explainUnknownName)
}

/**
 * The policy of a company on second factors, which is changed before if one is given.
 * @throws Problem not_found for an unknown company
 */
export async function companySecurity(
  context: ActContext,
  companyId: string,
  policy: SecondFactorPolicy | undefined,
  now: number,
): Promise<Security> {
  if (policy !== undefined) await changePolicy(context, { companyId, now }, policy)
  return await requireSecurity(context.db, companyId)
}
