import { type Act, type ActContext, asOperator } from '../acts.ts'
import { checkEmail, checkName, checkPassword, normalizeEmail } from '../company/checks.ts'
import { findUser } from '../company/listing-repository.ts'
import { emailTaken, noSuchUser } from '../company/problems.ts'
import * as companies from '../company/service.ts'
import type { Context } from '../context.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { Executor } from '../database/connect.ts'
import { clearCounters } from '../limits/counters.ts'
import type { Limits } from '../limits/list.ts'
import { onMember } from '../member/acting.ts'
import * as changes from '../member/changes.ts'
import * as invitations from '../member/invitations.ts'
import type { Member } from '../member/repository.ts'
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
  context: ActContext & Pick<Context, 'isBreached'> & { hasher: PasswordHasher },
  companyId: string,
  { role, password, ...given }: NewUser,
): Promise<{ userId: string }> {
  const { db, hasher, system } = context
  const companyName = await companies.requireCompanyName(db, companyId)
  const email = checkEmail(given.email)
  const name = given.name === undefined ? email : checkName('name', given.name)
  await checkPassword('password', password, { email, name, companyName }, context)
  const passwordHash = await hasher.hash(password)
  const now = system.now()
  const at = new Date(now)
  const user = { email, name, role, passwordHash, emailVerifiedAt: at, createdAt: at }
  const creation = asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    const userId = await companies.addUser(tx, system, companyId, user)
    if (userId === undefined) throw emailTaken()
    await audit('user_create', { subject: userId })
    return { userId }
  })
  return await creation.catch(explainUnknownName)
}

/**
 * Disables a user and ends all sessions of the user, or enables a user, who must then sign in again.
 * @throws Problem not_found, last_admin
 */
export async function changeUserStatus(
  context: ActContext,
  companyId: string,
  user: NamedUser,
  status: 'active' | 'disabled',
): Promise<{ userId: string }> {
  const by = { companyId, now: context.system.now() }
  const { userId } = await requireUser(context.db, companyId, user)
  const work = async (act: Act, member: Member) => await changes.changeStatus(act, member, status)
  await onMember(context, by, userId, work, { endsAdmin: status === 'disabled' })
  return { userId }
}

/** Changes the role of a user, from the next request on. @throws Problem not_found, invalid_request, last_admin */
export async function changeUserRole(
  context: ActContext,
  companyId: string,
  user: NamedUser,
  role: string,
  now: number,
): Promise<{ userId: string; before: string }> {
  const { userId } = await requireUser(context.db, companyId, user)
  const work = async (act: Act, member: Member) => {
    await changes.changeRole(act, member, role)
    return { userId, before: member.role }
  }
  const change = onMember(context, { companyId, now }, userId, work, { endsAdmin: role !== 'admin' })
  return await change.catch(explainUnknownName)
}

/**
 * Lets a user sign in again who was locked out by wrong passwords or codes, from wherever they came.
 * @throws Problem not_found
 */
export async function unlockUser(
  context: ActContext & { config: { limits: Limits } },
  companyId: string,
  user: NamedUser,
  now: number,
): Promise<{ userId: string }> {
  const { limits } = context.config
  return await asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    const { userId, email } = await requireUser(tx, companyId, user)
    await companies.clearLockout(tx, companyId, userId)
    for (const limit of [limits.signInFailures, limits.accountFailures])
      await clearCounters(tx, limit, [companyId, email])
    for (const limit of [limits.secondFactorCodes, limits.mailboxCodes])
      await clearCounters(tx, limit, [companyId, userId])
    await audit('user_unlock', { subject: userId })
    return { userId }
  })
}

/**
 * For somebody who has lost their second factors: those and the password are void, the sessions end, and a link to choose
 * another password is mailed. An admin can do it for all members but themselves.
 * @throws Problem not_found
 */
export async function resetSecondFactors(
  context: ActContext,
  companyId: string,
  user: NamedUser,
  now: number,
): Promise<{ userId: string }> {
  const found = await requireUser(context.db, companyId, user)
  await changes.resetSecondFactors(context, { companyId, now }, found)
  return { userId: found.userId }
}

/**
 * Deletes a user, whose id alone stays.
 * @throws Problem not_found, last_admin
 */
export async function deleteUser(
  context: ActContext,
  companyId: string,
  user: NamedUser,
  now: number,
): Promise<{ userId: string }> {
  const found = await requireUser(context.db, companyId, user)
  await changes.erase(context, { companyId, now }, found)
  return { userId: found.userId }
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
  context: ActContext,
  companyId: string,
  invitation: { email: string; role: string },
): Promise<{ email: string }> {
  const { system } = context
  const by = { companyId, now: system.now() }
  return await asOperator(context, by, async (act) => {
    const { email } = await invitations.open(system, act, invitation, by.now)
    await act.audit('invite', { subject: email })
    return { email }
  })
}
