import type { Kysely, Transaction } from 'kysely'
import type { PasswordHasher } from '../crypto/password.ts'
import { passwordFault } from '../crypto/password-policy.ts'
import { appendAudit, newEntry } from '../database/audit.ts'
import type { Executor } from '../database/connect.ts'
import { constraintOf } from '../database/faults.ts'
import type { Database, SubscriptionStatus } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import { newId, type System } from '../system.ts'
import * as repository from './repository.ts'

/** Companies and their users: a user is known by company and address. */

export {
  clearLockout,
  type FoundAccount,
  findAccountsByEmail,
  findActiveCompanyName,
  noteLockout,
  proveAddress,
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

/**
 * What companies and people may be called: anything that can be read, but nothing that ends a line or turns
 * the direction of what follows it.
 */
const NAME = /^[^\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]{1,100}$/u

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
 * A new user's names and address in the form that they are stored in, if these and the password may be chosen.
 * @throws Problem invalid_request
 */
export function checkNewUser(user: {
  companyName: string
  name?: string | undefined
  email: string
  password: string
}): {
  companyName: string
  name: string
  email: string
} {
  const email = requireEmail(user.email)
  const companyName = requireName(user.companyName, '/companyName')
  const name = user.name === undefined ? email : requireName(user.name, '/name')
  checkPassword(user.password, { email, companyName }, '/password')
  return { companyName, name, email }
}

/** @throws Problem invalid_request with that path for a password that may not be chosen */
export function checkPassword(
  password: string,
  person: { email: string; companyName: string },
  path: string,
): void {
  refuseFault(passwordFault(password, person), path)
}

interface NewMember {
  email: string
  name: string
  passwordHash: string
  /** Null: they cannot sign in before it is verified. */
  emailVerifiedAt: Date | null
  createdAt: Date
}

/**
 * Inserts a company in trial, with its admin. With an id that exists it does nothing, so that it can be
 * repeated.
 */
export async function insertCompanyWithAdmin(
  tx: Transaction<Database>,
  system: System,
  {
    companyId = newId(system),
    companyName,
    plan = 'growth',
    ...admin
  }: NewMember & { companyId?: string | undefined; companyName: string; plan?: string | undefined },
): Promise<{ companyId: string; userId: string; isNew: boolean }> {
  const { createdAt } = admin
  const userId = newId(system)
  const isNew = await repository.insertCompany(tx, companyId, {
    name: companyName,
    createdAt,
    plan,
    status: 'trialing',
    currentPeriodEnd: new Date(createdAt.getTime() + TRIAL_DAYS * DAY_MS),
  })
  if (isNew) await repository.insertUser(tx, companyId, { ...admin, userId, role: 'admin' })
  return { companyId, userId, isNew }
}

/** Inserts a user; undefined if the company has one with that address. */
export async function insertMember(
  tx: Transaction<Database>,
  system: System,
  companyId: string,
  member: NewMember & { role: string },
): Promise<string | undefined> {
  const userId = newId(system)
  return (await repository.insertUser(tx, companyId, { ...member, userId })) ? userId : undefined
}

/**
 * Creates a company in trial, with an admin whose address counts as verified; see insertCompanyWithAdmin.
 * @throws Problem invalid_request for a name or password that may not be chosen, or an unknown plan
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
  const { companyId, plan, password } = company
  const checked = checkNewUser({
    companyName: company.name,
    name: company.adminName,
    email: company.adminEmail,
    password,
  })
  const passwordHash = await hasher.hash(password)
  const createdAt = new Date(system.now())
  const ids = await reportingUnknownNames(
    db.transaction().execute(async (tx) => {
      const admin = { ...checked, passwordHash, emailVerifiedAt: createdAt, createdAt }
      const { isNew, ...created } = await insertCompanyWithAdmin(tx, system, { ...admin, companyId, plan })
      if (isNew) await auditOperator(tx, system, created.companyId, 'company_create', created.userId)
      return created
    }),
  )
  return { ...ids, email: checked.email }
}

/**
 * Creates a user whose address counts as verified.
 * @throws Problem not_found for an unknown company, invalid_request for anything else
 */
export async function createUser(
  { db, hasher, system }: Context,
  companyId: string,
  { role, password, ...user }: { email: string; name?: string | undefined; role: string; password: string },
): Promise<{ userId: string }> {
  const companyName = await repository.findCompanyName(db, companyId)
  if (companyName === undefined) throw noSuchCompany()
  const { email, name } = checkNewUser({ ...user, companyName, password })
  const passwordHash = await hasher.hash(password)
  const createdAt = new Date(system.now())
  return await reportingUnknownNames(
    db.transaction().execute(async (tx) => {
      const member = { email, name, role, passwordHash, emailVerifiedAt: createdAt, createdAt }
      const userId = await insertMember(tx, system, companyId, member)
      if (userId === undefined) throw emailTaken()
      await auditOperator(tx, system, companyId, 'user_create', userId)
      return { userId }
    }),
  )
}

/**
 * The address that is invited, in the form that it is stored in, if it can be.
 * @throws Problem not_found for an unknown company, invalid_request for anything else
 */
export async function checkInvitation(
  tx: Transaction<Database>,
  companyId: string,
  { email: text, role }: { email: string; role: string },
): Promise<string> {
  const email = requireEmail(text)
  if ((await repository.findActiveCompanyName(tx, companyId)) === undefined) throw noSuchCompany()
  if (!(await repository.roleExists(tx, role))) throw noSuchRole()
  const [account] = await repository.findAccountsByEmail(tx, [{ companyId, email }])
  if (account) throw emailTaken()
  return email
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
  const facts = { action, outcome: 'done', actor: 'operator', subject }
  await appendAudit(db, companyId, newEntry(system, new Date(system.now()), facts))
}

function requireName(text: string, path: string): string {
  const name = text.normalize('NFC').trim()
  refuseFault(NAME.test(name) ? null : 'must be one line of 1 to 100 characters', path)
  // Names stand in mail that anybody can have sent to anybody, and mail programs make links of these.
  refuseFault(/:\/\/|www\.|\w\.\w+\//i.test(name) ? 'must not contain the address of a page' : null, path)
  return name
}

/** An address in the form that it is stored in. @throws Problem invalid_request */
function requireEmail(text: string): string {
  const email = normalizeEmail(text)
  // What begins like an encoded word (RFC 2047) is another address to some mail servers.
  const isEmail = email.length <= 254 && EMAIL.test(email) && !email.includes('=?')
  refuseFault(isEmail ? null : 'must be an e-mail address', '/email')
  return email
}

function refuseFault(message: string | null, path: string): void {
  if (message) throw invalidField(path, message)
}

function emailTaken(): Problem {
  return invalidField('/email', 'belongs to a user of this company already')
}

function noSuchRole(): Problem {
  return invalidField('/role', 'is not one of the roles: admin, analyst, developer, viewer')
}

/** Roles, plans and states are data, so it is the database that knows which exist. */
async function reportingUnknownNames<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const constraint = constraintOf(error)
    if (constraint === 'users_role_fkey') throw noSuchRole()
    if (constraint === 'subscriptions_plan_fkey')
      throw invalidField('/plan', 'is not one of the plans: starter, growth, enterprise')
    throw error
  }
}
