import { listEntries, listRefusedSignIns, listServiceSignIns } from '../audit/repository.ts'
import { checkNewCompany } from '../company/checks.ts'
import { giveHandle } from '../company/handles.ts'
import { findUser } from '../company/listing-repository.ts'
import { setSubscription, updateCompany } from '../company/repository.ts'
import { explainUnknownName, noSuchCompany, openCompany } from '../company/service.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus, SubscriptionStatus } from '../database/schema.ts'
import { normalizeEmail } from '../http/email-address.ts'
import { changeSecurity, requireSecurity, type SecurityChange } from '../second-factor/policy.ts'
import { type ActContext, asOperator } from '../session/acts.ts'
import { endCompanySessions } from '../session/ending-repository.ts'
import { newId } from '../system.ts'
import { hashFirstPassword, linkToFirstPassword, type NewAccountContext } from './users.ts'

/** Operators' changes of companies, audited in the same transaction. @throws Problem not_found */

interface NewCompany {
  /** If the company exists, nothing happens, and the returned `userId` is not a user's. */
  companyId?: string | undefined
  name: string
  plan?: string | undefined
  adminEmail: string
  adminName?: string | undefined
  /** By default, the returned link lets the admin choose one. */
  password?: string | undefined
}

/** Starts a trial. The admin's email counts as verified. @throws Problem invalid_request */
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

export async function companySecurity(context: ActContext, companyId: string, change: SecurityChange) {
  if (Object.keys(change).length > 0)
    await changeSecurity(context, { companyId, now: context.system.now() }, change)
  return await requireSecurity(context.db, companyId)
}

/** At most `max` of each, newest first. An email selects entries about its user and entries that name it. */
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
