import { listEntries, listRefusedSignIns, listServiceSignIns } from '../audit/repository.ts'
import { checkNewCompany } from '../company/checks.ts'
import { giveHandle } from '../company/handles.ts'
import { findUser } from '../company/listing-repository.ts'
import { setSubscription, updateCompany } from '../company/repository.ts'
import { explainUnknownName, noSuchCompany, openCompany } from '../company/service.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus, SecondFactorPolicy, SubscriptionStatus } from '../database/schema.ts'
import { normalizeEmail } from '../http/email-address.ts'
import { changePolicy, requireSecurity } from '../second-factor/policy.ts'
import { type ActContext, asOperator } from '../session/acts.ts'
import { endCompanySessions } from '../session/ending-repository.ts'
import { newId } from '../system.ts'
import { hashFirstPassword, linkToFirstPassword, type NewAccountContext } from './users.ts'

/** Acts of operators on companies, audited in their transactions. @throws Problem not_found without the company */

interface NewCompany {
  /** If this company exists, nothing is done, and the returned `userId` names no user. */
  companyId?: string | undefined
  name: string
  plan?: string | undefined
  adminEmail: string
  adminName?: string | undefined
  /** Default: the admin chooses one by the link that is returned. */
  password?: string | undefined
}

/** In trial, with an admin whose e-mail counts as verified. @throws Problem invalid_request */
export async function createCompany(
  context: NewAccountContext,
  { companyId: id, plan, password, ...given }: NewCompany,
) {
  const { system } = context
  const names = { companyName: given.name, name: given.adminName, email: given.adminEmail }
  const { companyName, name, email } = checkNewCompany(names)
  const passwordHash = await hashFirstPassword(context, password, { email, name, companyName })
  const by = { companyId: id ?? newId(system), now: system.now() }
  const at = new Date(by.now)
  const admin = { name, email, passwordHash, emailVerifiedAt: at, createdAt: at }
  const creation = asOperator(context, by, async ({ tx, companyId, audit }) => {
    const company = { companyId, companyName, plan, admin }
    const { isNew, userId } = await openCompany(tx, system, company)
    if (isNew) await audit('company_create', { subject: userId })
    const handle = await giveHandle(tx, context, companyId, by.now)
    const link = await linkToFirstPassword(tx, context, companyId, { email, passwordHash, now: by.now })
    return { companyId, handle, userId, email, ...link }
  })
  return await creation.catch(explainUnknownName)
}

export async function changeCompanyStatus(context: ActContext, companyId: string, status: CompanyStatus) {
  await asOperator(context, { companyId, now: context.system.now() }, async ({ tx, audit }) => {
    if (!(await updateCompany(tx, companyId, { status }))) throw noSuchCompany()
    if (status === 'suspended') await endCompanySessions(tx, companyId, 'company_suspended')
    await audit(status === 'suspended' ? 'company_suspend' : 'company_resume')
  })
}

/** @throws Problem invalid_request for an unknown plan */
export async function changeSubscription(
  context: ActContext,
  companyId: string,
  change: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<void> {
  const changing = asOperator(context, { companyId, now: context.system.now() }, async ({ tx, audit }) => {
    if (!(await setSubscription(tx, companyId, change))) throw noSuchCompany()
    await audit('subscription_set')
  })
  await changing.catch(explainUnknownName)
}

/** The policy on second factors, which is changed before if one is given. */
export async function companySecurity(
  context: ActContext,
  companyId: string,
  policy: SecondFactorPolicy | undefined,
) {
  if (policy !== undefined) await changePolicy(context, { companyId, now: context.system.now() }, policy)
  return await requireSecurity(context.db, companyId)
}

/** The newest, at most `max` of each. With an e-mail, those about the user who has it, and those that name it. */
export async function readAudit(
  db: Executor,
  companyId: string,
  { email: given, max }: { email?: string | undefined; max: number },
) {
  const email = given === undefined ? undefined : normalizeEmail(given)
  const user = email === undefined ? undefined : await findUser(db, companyId, { email })
  const person = email === undefined ? undefined : { email, userId: user?.userId ?? null }
  const entries = await listEntries(db, companyId, { person, max })
  const refusedSignIns = await listRefusedSignIns(db, companyId, { person, max })
  const serviceSignIns = await listServiceSignIns(db, companyId, { userId: person?.userId, max })
  return { companyId, ...person, entries, refusedSignIns, serviceSignIns }
}

export async function endSessionsOfCompany(context: ActContext, companyId: string) {
  await asOperator(context, { companyId, now: context.system.now() }, async ({ tx, audit }) => {
    if (!(await endCompanySessions(tx, companyId, 'ended_by_operator'))) throw noSuchCompany()
    await audit('sessions_end')
  })
}
