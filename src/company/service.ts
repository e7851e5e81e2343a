import type { Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus, Database, SubscriptionStatus, UserKind } from '../database/schema.ts'
import { newId, type System } from '../system.ts'
import { lastAdmin, noSuchCompany, noSuchRole, noSuchUser } from './problems.ts'
import * as repository from './repository.ts'

/** Creates and changes companies and their users, always in a transaction that is passed in. */

const TRIAL_DAYS = 14
const DAY_MS = 86_400_000

interface NewUser {
  email: string
  name: string
  kind?: UserKind | undefined
  assignments?: string[] | undefined
  passwordHash: string
  /** Null: the user cannot sign in before verification. */
  emailVerifiedAt: Date | null
  createdAt: Date
}

interface NewCompany {
  companyId?: string | undefined
  companyName: string
  plan?: string | undefined
  admin: NewUser
}

/** Opens a company in trial. Does nothing if the id exists; `userId` then names no user. */
export async function openCompany(
  tx: Transaction<Database>,
  system: System,
  { companyId = newId(system), companyName, plan = 'growth', admin }: NewCompany,
): Promise<{ companyId: string; userId: string; isNew: boolean }> {
  const userId = newId(system)
  const trialEnd = new Date(admin.createdAt.getTime() + TRIAL_DAYS * DAY_MS)
  const company = { name: companyName, createdAt: admin.createdAt }
  const subscription = { plan, status: 'trialing', currentPeriodEnd: trialEnd } as const
  const isNew = await repository.insertCompany(tx, companyId, { ...company, ...subscription })
  if (isNew) await repository.insertUser(tx, companyId, { ...admin, userId, role: 'admin' })
  return { companyId, userId, isNew }
}

/** Undefined if the company already has a user with that e-mail. */
export async function addUser(
  tx: Transaction<Database>,
  system: System,
  companyId: string,
  user: NewUser & { role: string },
): Promise<string | undefined> {
  const userId = newId(system)
  return (await repository.insertUser(tx, companyId, { ...user, userId })) ? userId : undefined
}

/** @throws Problem not_found */
export async function requireCompanyName(db: Executor, companyId: string): Promise<string> {
  const name = await repository.findCompanyName(db, companyId)
  if (name === undefined) throw noSuchCompany()
  return name
}

/** Undefined if the company is suspended or being deleted. */
export async function activeCompanyName(db: Executor, companyId: string): Promise<string | undefined> {
  return await repository.findActiveCompanyName(db, companyId)
}

/** @throws Problem not_found */
export async function requireActiveCompany(db: Executor, companyId: string): Promise<void> {
  if ((await activeCompanyName(db, companyId)) === undefined) throw noSuchCompany()
}

/** @throws Problem invalid_request */
export async function requireRole(db: Executor, role: string): Promise<void> {
  if (!(await repository.roleExists(db, role))) throw noSuchRole()
}

/** @throws Problem not_found */
export async function changeCompanyStatus(
  tx: Transaction<Database>,
  companyId: string,
  status: CompanyStatus,
): Promise<void> {
  if (!(await repository.setCompanyStatus(tx, companyId, status))) throw noSuchCompany()
}

/** @throws Problem not_found */
export async function changeUserStatus(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  status: 'active' | 'disabled',
): Promise<void> {
  if (!(await repository.updateUser(tx, companyId, userId, { status }))) throw noSuchUser()
}

/** @throws Problem not_found; a foreign key refuses unknown roles */
export async function changeUserRole(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  role: string,
): Promise<void> {
  if (!(await repository.updateUser(tx, companyId, userId, { role }))) throw noSuchUser()
}

/** @throws Problem not_found */
export async function changeAssignments(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  assignments: string[],
): Promise<void> {
  if (!(await repository.updateUser(tx, companyId, userId, { assignments }))) throw noSuchUser()
}

/** `name` in its stored form. @throws Problem not_found */
export async function rename(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  name: string,
): Promise<void> {
  if (!(await repository.updateUser(tx, companyId, userId, { name }))) throw noSuchUser()
}

export async function lockUser(tx: Transaction<Database>, companyId: string, userId: string): Promise<void> {
  await repository.lockUser(tx, companyId, userId)
}

/** @throws Problem not_found */
export async function eraseUser(tx: Transaction<Database>, companyId: string, userId: string): Promise<void> {
  if (!(await repository.eraseUser(tx, companyId, userId))) throw noSuchUser()
}

/** @throws Problem not_found */
export async function clearLockout(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  if (!(await repository.updateUser(tx, companyId, userId, { locked_out_at: null }))) throw noSuchUser()
}

/** Call it before other locks of users, if the user may cease to be an admin. @throws Problem last_admin */
export async function requireOtherAdmin(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  const admins = await repository.lockUserAndActiveAdmins(tx, companyId, userId)
  if (admins.length === 1 && admins[0] === userId) throw lastAdmin()
}

/** @throws Problem not_found */
export async function changeSubscription(
  tx: Transaction<Database>,
  companyId: string,
  change: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<void> {
  if (!(await repository.setSubscription(tx, companyId, change))) throw noSuchCompany()
}
