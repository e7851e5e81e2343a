import { checkEmail, checkName, checkPassword, normalizeEmail } from '../company/checks.ts'
import { findUser } from '../company/listing-repository.ts'
import { emailTaken, noSuchUser } from '../company/problems.ts'
import * as companies from '../company/service.ts'
import type { Context } from '../context.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { Executor } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import { clearCounters } from '../limits/counters.ts'
import type { Limits } from '../limits/list.ts'
import * as changes from '../member/changes.ts'
import * as invitations from '../member/invitations.ts'
import { deleteResetTokens } from '../one-time-token/repository.ts'
import { resetFactors } from '../second-factor/reset.ts'
import { auditOperator } from './audit.ts'
import { explainUnknownName } from './unknown-names.ts'

/** Acts of operators on the users of a company; each is audited in its transaction. */

/** How an operator names a user. */
type NamedUser = { userId: string } | { email: string }

interface NewUser {
  email: string
  /** Default: the e-mail. */
  name?: string | undefined
  role: string
  password: string
}

/**
 * Creates a user whose e-mail counts as verified.
 * @throws Problem not_found for an unknown company, invalid_request for a value that is not accepted
 */
export async function createUser(
  {
    db,
    hasher,
    system,
    isBreached,
  }: Pick<Context, 'db' | 'system' | 'isBreached'> & { hasher: PasswordHasher },
  companyId: string,
  { role, password, ...given }: NewUser,
): Promise<{ userId: string }> {
  const companyName = await companies.requireCompanyName(db, companyId)
  const email = checkEmail(given.email)
  const name = given.name === undefined ? email : checkName('name', given.name)
  await checkPassword('password', password, { email, name, companyName }, { hasher, isBreached })
  const passwordHash = await hasher.hash(password)
  const now = new Date(system.now())
  const user = { email, name, role, passwordHash, emailVerifiedAt: now, createdAt: now }
  const creation = db.transaction().execute(async (tx) => {
    const userId = await companies.addUser(tx, system, companyId, user)
    if (userId === undefined) throw emailTaken()
    await auditOperator(tx, system, companyId, now, { action: 'user_create', subject: userId })
    return { userId }
  })
  return await creation.catch(explainUnknownName)
}

/**
 * Disables a user and ends all sessions of the user, or enables a user, who must then sign in again.
 * @throws Problem not_found, last_admin
 */
export async function changeUserStatus(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  user: NamedUser,
  status: 'active' | 'disabled',
): Promise<{ userId: string }> {
  const now = new Date(system.now())
  const action = status === 'disabled' ? 'user_disable' : 'user_enable'
  return await db.transaction().execute(async (tx) => {
    const { userId } = await requireUser(tx, companyId, user)
    if (status === 'disabled') await companies.requireOtherAdmin(tx, companyId, userId)
    await changes.changeStatus(tx, companyId, userId, status)
    await auditOperator(tx, system, companyId, now, { action, subject: userId })
    return { userId }
  })
}

/** Changes the role of a user, from the next request on. @throws Problem not_found, invalid_request, last_admin */
export async function changeUserRole(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  user: NamedUser,
  role: string,
  now: number,
): Promise<{ userId: string; before: string }> {
  const change = db.transaction().execute(async (tx) => {
    const { userId, kind, role: before } = await requireUser(tx, companyId, user)
    if (role !== 'admin') await companies.requireOtherAdmin(tx, companyId, userId)
    await changes.changeRole(tx, companyId, { id: userId, kind }, role)
    const details = { before: { role: before }, after: { role } }
    const act = { action: 'user_role', subject: userId, details }
    await auditOperator(tx, system, companyId, new Date(now), act)
    return { userId, before }
  })
  return await change.catch(explainUnknownName)
}

/**
 * Lets a user sign in again who was locked out by wrong passwords or codes, from wherever they came.
 * @throws Problem not_found
 */
export async function unlockUser(
  { db, system, config: { limits } }: Pick<Context, 'db' | 'system'> & { config: { limits: Limits } },
  companyId: string,
  user: NamedUser,
  now: number,
): Promise<{ userId: string }> {
  return await db.transaction().execute(async (tx) => {
    const { userId, email } = await requireUser(tx, companyId, user)
    await companies.clearLockout(tx, companyId, userId)
    for (const limit of [limits.signInFailures, limits.accountFailures])
      await clearCounters(tx, limit, [companyId, email])
    for (const limit of [limits.secondFactorCodes, limits.mailboxCodes])
      await clearCounters(tx, limit, [companyId, userId])
    const act = { action: 'user_unlock', subject: userId }
    await auditOperator(tx, system, companyId, new Date(now), act)
    return { userId }
  })
}

/**
 * For somebody who has lost their second factors: those and the password are void, the sessions end, and a link to choose
 * another password is mailed. An admin can do it for all members but themselves.
 * @throws Problem not_found
 */
export async function resetSecondFactors(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  user: NamedUser,
  now: number,
): Promise<{ userId: string }> {
  return await db.transaction().execute(async (tx) => {
    const { userId, email: before, kind } = await requireUser(tx, companyId, user)
    if (kind === 'service') throw new Problem('not_found', 'A service member has no second factors.')
    // In one order: mails, tokens, users.
    await deleteResetTokens(tx, companyId, before)
    await companies.holdUser(tx, companyId, userId)
    const { email } = await requireUser(tx, companyId, { userId })
    // It was changed meanwhile.
    if (email !== before) await deleteResetTokens(tx, companyId, email)
    await resetFactors(tx, system, { companyId, userId, email }, { reason: 'ended_by_operator', now })
    const act = { action: 'second_factors_reset', subject: userId }
    await auditOperator(tx, system, companyId, new Date(now), act)
    return { userId }
  })
}

/**
 * Deletes a user, whose id alone stays.
 * @throws Problem not_found, last_admin
 */
export async function deleteUser(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  user: NamedUser,
  now: number,
): Promise<{ userId: string }> {
  return await db.transaction().execute(async (tx) => {
    const { userId, email: before } = await requireUser(tx, companyId, user)
    await changes.forgetMailsTo(tx, companyId, { userId, email: before })
    await companies.requireOtherAdmin(tx, companyId, userId)
    await companies.holdUser(tx, companyId, userId)
    const { email } = await requireUser(tx, companyId, { userId })
    // It was changed meanwhile.
    if (email !== before) await changes.forgetMailsTo(tx, companyId, { userId, email })
    await changes.erase(tx, companyId, { userId, email })
    const act = { action: 'user_delete', subject: userId }
    await auditOperator(tx, system, companyId, new Date(now), act)
    return { userId }
  })
}

/** @throws Problem not_found */
export async function requireUser(db: Executor, companyId: string, user: NamedUser) {
  const named = 'email' in user ? { email: normalizeEmail(user.email) } : user
  const found = await findUser(db, companyId, named)
  if (!found) throw noSuchUser()
  return found
}

/**
 * Invites an e-mail to a company, by mail.
 * @throws Problem not_found unless the company is active, invalid_request for the e-mail or the role
 */
export async function invite(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  invitation: { email: string; role: string },
): Promise<{ email: string }> {
  const now = system.now()
  return await db.transaction().execute(async (tx) => {
    const { email } = await invitations.open(tx, system, companyId, invitation, now)
    await auditOperator(tx, system, companyId, new Date(now), { action: 'invite', subject: email })
    return { email }
  })
}
