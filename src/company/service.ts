import type { Executor, Tx } from '../database/connect.ts'
import { constraintOf } from '../database/faults.ts'
import { invalidField, Problem } from '../errors.ts'
import { newId, type System } from '../system.ts'
import { PLANS, ROLES } from './account.ts'
import * as repository from './repository.ts'

/** Creates and changes companies and their users, in the caller's transaction. */

const TRIAL_MS = 14 * 86_400_000

type NewUser = Omit<repository.NewUser, 'userId'>

interface NewCompany {
  companyId?: string | undefined
  companyName: string
  plan?: string | undefined
  admin: Omit<NewUser, 'role'>
}

/** Opens a company on a trial. Does nothing if the id exists; `userId` then names no user. */
export async function openCompany(
  tx: Tx,
  system: System,
  { companyId = newId(system), companyName, plan = 'growth', admin }: NewCompany,
) {
  const userId = newId(system)
  const { createdAt } = admin
  const trialEnd = new Date(createdAt.getTime() + TRIAL_MS)
  const company = { name: companyName, plan, createdAt, trialEnd }
  const isNew = await repository.insertCompany(tx, companyId, company)
  if (isNew) await repository.insertUser(tx, companyId, { ...admin, userId, role: 'admin' })
  return { companyId, userId, isNew }
}

/** Undefined if the company already has a user with this email. */
export async function addUser(tx: Tx, system: System, companyId: string, user: NewUser) {
  const userId = newId(system)
  return (await repository.insertUser(tx, companyId, { ...user, userId })) ? userId : undefined
}

/** @throws Problem not_found */
export async function requireCompanyName(db: Executor, companyId: string): Promise<string> {
  const name = await repository.findCompanyName(db, companyId)
  if (name === undefined) throw noSuchCompany()
  return name
}

export async function requireRole(db: Executor, role: string): Promise<void> {
  if (!(await repository.roleExists(db, role))) throw noSuchRole()
}

/** A foreign key refuses unknown roles. @throws Problem not_found */
export async function changeUser(
  tx: Tx,
  companyId: string,
  userId: string,
  change: Parameters<typeof repository.updateUser>[3],
): Promise<void> {
  if (!(await repository.updateUser(tx, companyId, { userId }, change))) throw noSuchUser()
}

export const ERASED = {
  status: 'deleted',
  email: null,
  name: '',
  password_hash: '',
  assignments: [],
  locked_out_at: null,
  pending_email: null,
  last_sign_in_at: null,
} as const satisfies Parameters<typeof changeUser>[3]

/** Call it before other locks on users, if the user may stop being an admin. @throws Problem last_admin */
export async function requireOtherAdmin(tx: Tx, companyId: string, userId: string): Promise<void> {
  const admins = await repository.lockUserAndActiveAdmins(tx, companyId, userId)
  if (admins.length === 1 && admins[0] === userId)
    throw new Problem(
      'last_admin',
      'This would leave the company without an active admin. Make another user an admin first.',
    )
}

export function noSuchCompany(): Problem {
  return new Problem('not_found', 'No company has this ID.')
}

export function noSuchUser(): Problem {
  return new Problem('not_found', 'The company has no such user.')
}

function noSuchRole(): Problem {
  return invalidField('role', `must be one of ${ROLES.join(', ')}`)
}

export function alreadyMember(): Problem {
  return new Problem('already_member', 'This email already belongs to a member of the company.')
}

export function emailTaken(): Problem {
  return invalidField('email', 'is already the email of a user of this company')
}

/** For `catch`: foreign keys refuse unknown roles and plans. @throws Problem invalid_request */
export function explainUnknownName(error: unknown): never {
  const constraint = constraintOf(error)
  if (constraint === 'users_role_fkey') throw noSuchRole()
  if (constraint === 'subscriptions_plan_fkey')
    throw invalidField('plan', `must be one of ${PLANS.join(', ')}`)
  throw error
}
