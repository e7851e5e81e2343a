import { SUBSCRIPTION_STATUSES } from '../../src/company/account.ts'
import { findCompany, listCompaniesAcrossCompanies } from '../../src/company/listing-repository.ts'
import { noSuchCompany } from '../../src/company/service.ts'
import type { CompanyStatus } from '../../src/database/schema.ts'
import {
  changeCompanyStatus,
  changeSubscription,
  companySecurity,
  createCompany,
} from '../../src/operator/companies.ts'
import { deleteCompany } from '../../src/operator/company-deletion.ts'
import type { SecurityChange } from '../../src/second-factor/policy.ts'
import { type Commands, limitOf, numberOf, oneOf, type Values } from './command-line.ts'
import { type Context, readPassword } from './context.ts'

export const COMPANY_COMMANDS: Commands = {
  async 'company create --name N --admin-email E [--admin-name A] [--plan P]'(context, _, values) {
    const { name = '', 'admin-email': adminEmail = '', 'admin-name': adminName, plan } = values
    const password = await readPassword(context)
    return await createCompany(context, { name, adminEmail, adminName, plan, password })
  },
  async 'company list [--limit L]'({ db }, _, values) {
    return { companies: await listCompaniesAcrossCompanies(db, limitOf(values)) }
  },
  async 'company show COMPANY'({ db }, companyId) {
    const company = await findCompany(db, companyId)
    if (!company) throw noSuchCompany()
    return company
  },
  'company suspend COMPANY': (context, companyId) => changeStatus(context, companyId, 'suspended'),
  'company resume COMPANY': (context, companyId) => changeStatus(context, companyId, 'active'),
  async 'company security COMPANY [--second-factor F] [--session-idle-seconds T] [--session-max-age-seconds T]'(
    context,
    companyId,
    values,
  ) {
    return { companyId, ...(await companySecurity(context, companyId, securityChangeOf(values))) }
  },
  async 'company delete COMPANY'(context, companyId) {
    const deleted = await deleteCompany(context, companyId)
    // A later housekeeping run deletes its empty row.
    return { companyId, status: 'deleting', ...deleted }
  },
  async 'subscription set --company COMPANY --status S [--plan P]'(context, companyId, values) {
    const { plan } = values
    const status = oneOf('status', values['status'], SUBSCRIPTION_STATUSES)
    await changeSubscription(context, companyId, { status, plan })
    return { companyId, status, ...(plan !== undefined && { plan }) }
  },
}

/** @throws UsageError */
function securityChangeOf(values: Values): SecurityChange {
  const { 'second-factor': policy, 'session-idle-seconds': idle, 'session-max-age-seconds': maxAge } = values
  const secondsOf = (option: string, text: string, least: number, most: number) =>
    text === 'default' ? null : numberOf(option, text, least, most)
  return {
    ...(policy !== undefined && {
      secondFactor: oneOf('second-factor', policy, ['optional', 'admins', 'everyone'] as const),
    }),
    ...(idle !== undefined && { sessionIdleSeconds: secondsOf('session-idle-seconds', idle, 300, 604_800) }),
    ...(maxAge !== undefined && {
      sessionMaxAgeSeconds: secondsOf('session-max-age-seconds', maxAge, 900, 2_592_000),
    }),
  }
}

async function changeStatus(context: Context, companyId: string, status: CompanyStatus) {
  await changeCompanyStatus(context, companyId, status)
  return { companyId, status }
}
