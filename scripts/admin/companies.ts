import { SUBSCRIPTION_STATUSES } from '../../src/company/account.ts'
import { findCompany, listCompaniesAcrossCompanies } from '../../src/company/listing-repository.ts'
import { noSuchCompany } from '../../src/company/problems.ts'
import type { SecondFactorPolicy, SubscriptionStatus } from '../../src/database/schema.ts'
import {
  changeCompanyStatus,
  changeSubscription,
  companySecurity,
  createCompany,
} from '../../src/operator/companies.ts'
import { deleteCompany } from '../../src/operator/company-deletion.ts'
import { type Command, limitOf } from './command-line.ts'
import { readPassword } from './context.ts'
import { UsageError } from './usage.ts'

export const COMPANY_COMMANDS: Record<string, Command> = {
  'company create': {
    required: ['name', 'admin-email'],
    optional: ['admin-name', 'plan'],
    async run(context, { name = '', 'admin-email': email = '', 'admin-name': adminName, plan }) {
      const password = await readPassword(context)
      const created = await createCompany(context, { name, adminEmail: email, adminName, plan, password })
      return { ...created }
    },
  },
  'company list': {
    optional: ['limit'],
    run: async ({ db }, values) => ({ companies: await listCompaniesAcrossCompanies(db, limitOf(values)) }),
  },
  'company show': {
    takes: 'company',
    async run({ db }, _values, companyId) {
      const company = await findCompany(db, companyId)
      if (!company) throw noSuchCompany()
      return { ...company }
    },
  },
  'company suspend': {
    takes: 'company',
    async run(context, _values, companyId) {
      await changeCompanyStatus(context, companyId, 'suspended')
      return { companyId, status: 'suspended' }
    },
  },
  'company resume': {
    takes: 'company',
    async run(context, _values, companyId) {
      await changeCompanyStatus(context, companyId, 'active')
      return { companyId, status: 'active' }
    },
  },
  'company security': {
    takes: 'company',
    optional: ['second-factor'],
    async run(context, { 'second-factor': policy }, companyId) {
      if (policy !== undefined && !isSecondFactorPolicy(policy))
        throw new UsageError(`--second-factor is one of ${SECOND_FACTOR_POLICIES.join(', ')}`)
      return { companyId, ...(await companySecurity(context, companyId, policy, context.system.now())) }
    },
  },
  'company delete': {
    takes: 'company',
    async run(context, _values, companyId) {
      const deleted = await deleteCompany(context, companyId, context.system.now())
      // Its empty row goes with a later run of housekeeping.
      return { companyId, status: 'deleting', ...deleted }
    },
  },

  'subscription set': {
    required: ['company', 'status'],
    optional: ['plan'],
    async run(context, { company = '', status = '', plan }) {
      if (!isSubscriptionStatus(status))
        throw new UsageError(`--status is one of ${SUBSCRIPTION_STATUSES.join(', ')}`)
      await changeSubscription(context, company, { status, plan })
      return { companyId: company, status, ...(plan !== undefined && { plan }) }
    },
  },
}

function isSubscriptionStatus(text: string): text is SubscriptionStatus {
  return SUBSCRIPTION_STATUSES.some((status) => status === text)
}

const SECOND_FACTOR_POLICIES = ['optional', 'admins', 'everyone'] as const satisfies SecondFactorPolicy[]

function isSecondFactorPolicy(text: string): text is SecondFactorPolicy {
  return SECOND_FACTOR_POLICIES.some((policy) => policy === text)
}
