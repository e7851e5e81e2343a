import type { Kysely } from 'kysely'
import type { PasswordHasher } from '../crypto/password.ts'
import { passwordFault } from '../crypto/password-policy.ts'
import { appendAudit } from '../database/audit.ts'
import type { Executor } from '../database/connect.ts'
import { constraintOf } from '../database/faults.ts'
import type { Database, SubscriptionStatus } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { newId, type System } from '../system.ts'
import * as repository from './repository.ts'

/** Companies and their users, as an operator manages them: a user is known by company and address. */

export {
  type FoundAccount,
  findAccountsByEmail,
  replacePasswordHash,
  setCompanyStatus,
  setUserStatus,
} from './repository.ts'

const TRIAL_DAYS = 14
const DAY_MS = 86_400_000

interface Context {
  db: Kysely<Database>
  hasher: PasswordHasher
  system: System
}

/** What may stand on each side of the @, and of the dots there: what sign-in takes as an address. */
const ATOM = "[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const EMAIL = new RegExp(`^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LABEL}$`)

/** The form in which addresses are stored and compared. */
export function normalizeEmail(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

/** A password that nobody has to remember: 120 random bits. */
export function generatePassword(system: System): string {
  return system.randomBytes(15).toString('base64url')
}

/**
 * Creates a company in trial, with an admin whose address counts as verified. With an id that exists it
 * does nothing, so that it can be repeated.
 * @throws Problem invalid_request for a password that may not be chosen, or an unknown plan
 */
export async function createCompany(
  { db, hasher, system }: Context,
  company: {
    companyId?: string | undefined
    name: string
    plan?: string | undefined
    adminEmail: string
    adminName?: string | undefined
    password: string
  },
): Promise<{ companyId: string; userId: string; email: string }> {
  const email = requireEmail(company.adminEmail)
  refuseFault(passwordFault(company.password, { email, companyName: company.name }), '/password')
  const passwordHash = await hasher.hash(company.password)
  const companyId = company.companyId ?? newId(system)
  const userId = newId(system)
  const createdAt = new Date(system.now())
  await reportingUnknownNames(
    db.transaction().execute(async (tx) => {
      const inserted = await repository.insertCompany(tx, companyId, {
        name: company.name,
        createdAt,
        plan: company.plan ?? 'growth',
        status: 'trialing',
        currentPeriodEnd: new Date(createdAt.getTime() + TRIAL_DAYS * DAY_MS),
      })
      if (!inserted) return
      await repository.insertUser(tx, companyId, {
        userId,
        email,
        name: company.adminName ?? email,
        role: 'admin',
        passwordHash,
        emailVerifiedAt: createdAt,
        createdAt,
      })
      await auditOperator(tx, system, companyId, 'company_create', userId)
    }),
  )
  return { companyId, userId, email }
}

/**
 * Creates a user whose address counts as verified.
 * @throws Problem not_found for an unknown company, invalid_request for anything else
 */
export async function createUser(
  { db, hasher, system }: Context,
  companyId: string,
  user: { email: string; name?: string | undefined; role: string; password: string },
): Promise<{ userId: string }> {
  const companyName = await repository.findCompanyName(db, companyId)
  if (companyName === undefined) throw noSuchCompany()
  const email = requireEmail(user.email)
  refuseFault(passwordFault(user.password, { email, companyName }), '/password')
  const passwordHash = await hasher.hash(user.password)
  const createdAt = new Date(system.now())
  const userId = newId(system)
  await reportingUnknownNames(
    db.transaction().execute(async (tx) => {
      const inserted = await repository.insertUser(tx, companyId, {
        userId,
        email,
        name: user.name ?? email,
        role: user.role,
        passwordHash,
        emailVerifiedAt: createdAt,
        createdAt,
      })
      refuseFault(inserted ? null : 'belongs to a user of this company already', '/email')
      await auditOperator(tx, system, companyId, 'user_create', userId)
    }),
  )
  return { userId }
}

/** @throws Problem not_found for an unknown company, invalid_request for an unknown plan */
export async function changeSubscription(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  change: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<void> {
  await reportingUnknownNames(
    db.transaction().execute(async (tx) => {
      if (!(await repository.setSubscription(tx, companyId, change))) throw noSuchCompany()
      await auditOperator(tx, system, companyId, 'subscription_set')
    }),
  )
}

export function noSuchCompany(): Problem {
  return new Problem('not_found', 'There is no company with this id.')
}

/** Records what an operator did, in the transaction that does it. */
export async function auditOperator(
  db: Executor,
  system: System,
  companyId: string,
  action: string,
  subject?: string,
): Promise<void> {
  await appendAudit(db, companyId, {
    auditId: newId(system),
    occurredAt: new Date(system.now()),
    action,
    outcome: 'done',
    actor: 'operator',
    subject,
  })
}

/** An address in the form that it is stored in. @throws Problem invalid_request */
function requireEmail(text: string): string {
  const email = normalizeEmail(text)
  refuseFault(email.length <= 254 && EMAIL.test(email) ? null : 'must be an e-mail address', '/email')
  return email
}

function refuseFault(message: string | null, path: string): void {
  if (message)
    throw new Problem('invalid_request', `${path.slice(1)} ${message}`, { errors: [{ path, message }] })
}

/** Roles, plans and states are data, so it is the database that knows which exist. */
async function reportingUnknownNames<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const constraint = constraintOf(error)
    if (constraint === 'users_role_fkey') refuseFault('is not one of the roles: admin, analyst, developer, viewer', '/role')
    if (constraint === 'subscriptions_plan_fkey') refuseFault('is not one of the plans: starter, growth, enterprise', '/plan')
    throw error
  }
}
