import { checkEmail, checkName, checkPassword } from '../company/checks.ts'
import { findUser } from '../company/listing-repository.ts'
import {
  addUser,
  changeUser,
  emailTaken,
  explainUnknownName,
  noSuchUser,
  requireCompanyName,
} from '../company/service.ts'
import type { Config } from '../config/config.ts'
import type { Limits } from '../config/limits.ts'
import { createOpaque } from '../crypto/opaque.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { Person } from '../crypto/password-policy.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { Context } from '../http/context.ts'
import { normalizeEmail } from '../http/email-address.ts'
import { clearCounters } from '../limits/counters.ts'
import * as changes from '../member/changes.ts'
import { onMember, tellOfNewAdmin } from '../member/changes.ts'
import * as invitations from '../member/invitations.ts'
import type { Member } from '../member/repository.ts'
import { replacePasswordAs } from '../member/service-members.ts'
import { issuePrintedReset } from '../one-time-token/service.ts'
import { type Act, type ActContext, asOperator } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'

/** Operators' changes of users, audited in the same transaction. @throws Problem not_found */

type NamedUser = { userId: string } | { email: string }

interface NewUser {
  email: string
  name?: string | undefined
  role: string
  /** By default, the returned link lets the user choose one. */
  password?: string | undefined
}

export type NewAccountContext = ActContext &
  Pick<Context, 'isBreached'> & {
    hasher: PasswordHasher
    config: { cell: string | undefined; pagesUrl: string }
  }

/** The email counts as verified. @throws Problem invalid_request */
export async function createUser(
  context: NewAccountContext,
  companyId: string,
  { role, password, ...given }: NewUser,
) {
  const { db, system } = context
  const companyName = await requireCompanyName(db, companyId)
  const email = checkEmail(given.email)
  const name = given.name === undefined ? email : checkName('name', given.name)
  const passwordHash = await hashFirstPassword(context, password, { email, name, companyName })
  const now = system.now()
  const at = new Date(now)
  const user = { email, name, role, passwordHash, emailVerifiedAt: at, createdAt: at }
  const creation = asOperator(context, { companyId, now }, async (act) => {
    const userId = await addUser(act.tx, system, companyId, user)
    if (userId === undefined) throw emailTaken()
    if (role === 'admin') await tellOfNewAdmin(act, userId, { changedBy: null })
    await act.audit('user_create', { subject: userId })
    const link = await linkToFirstPassword(act.tx, context, companyId, { email, passwordHash, now })
    return { userId, ...link }
  })
  return await creation.catch(explainUnknownName)
}

/** Until the user chooses one with the link. Anyone who sees a printed password could keep using it. */
const NO_PASSWORD = ''

/** @throws Problem invalid_request */
export async function hashFirstPassword(
  context: Pick<NewAccountContext, 'hasher' | 'isBreached'>,
  password: string | undefined,
  person: Person,
): Promise<string> {
  if (password === undefined) return NO_PASSWORD
  await checkPassword('password', password, person, context)
  return await context.hasher.hash(password)
}

export async function linkToFirstPassword(
  tx: Tx,
  { system, config }: Pick<NewAccountContext, 'system' | 'config'>,
  companyId: string,
  { email, passwordHash, now }: { email: string; passwordHash: string; now: number },
) {
  if (passwordHash !== NO_PASSWORD) return {}
  const opaque = createOpaque(config.cell, system.randomBytes)
  const { token, expiresAt } = await issuePrintedReset(tx, opaque, companyId, { email, now })
  return { link: `${config.pagesUrl}/reset-password#token=${token}`, linkExpiresAt: expiresAt }
}

/** @throws Problem last_admin */
export async function changeUserStatus(
  context: ActContext,
  companyId: string,
  user: NamedUser,
  status: 'active' | 'disabled',
) {
  const by = { companyId, now: context.system.now() }
  const { userId } = await requireUser(context.db, companyId, user)
  const work = async (act: Act, member: Member) => await changes.changeStatus(act, member, status)
  await onMember(context, by, { memberId: userId, endsAdmin: status === 'disabled' }, work)
  return { userId }
}

/** @throws Problem invalid_request, last_admin */
export async function changeUserRole(context: ActContext, companyId: string, user: NamedUser, role: string) {
  const by = { companyId, now: context.system.now() }
  const { userId } = await requireUser(context.db, companyId, user)
  const work = async (act: Act, member: Member) => {
    await changes.changeRole(act, member, role)
    return { userId, before: member.role }
  }
  const change = { memberId: userId, endsAdmin: role !== 'admin' }
  return await onMember(context, by, change, work).catch(explainUnknownName)
}

export async function unlockUser(
  context: ActContext & { config: { limits: Limits } },
  companyId: string,
  user: NamedUser,
) {
  const { limits } = context.config
  const now = context.system.now()
  return await asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    const { userId, email } = await requireUser(tx, companyId, user)
    await changeUser(tx, companyId, userId, { locked_out_at: null })
    for (const limit of [limits.signInFailures, limits.accountFailures])
      await clearCounters(tx, limit, [companyId, email])
    for (const limit of [limits.secondFactorCodes, limits.mailboxCodes])
      await clearCounters(tx, limit, [companyId, userId])
    await audit('user_unlock', { subject: userId })
    return { userId }
  })
}

/** Only this returns the password. */
export async function replaceServicePassword(
  context: Parameters<typeof replacePasswordAs>[0],
  companyId: string,
  user: NamedUser,
  previousValidSeconds: number,
) {
  const by = { companyId, now: context.system.now() }
  const { userId } = await requireUser(context.db, companyId, user)
  return { userId, ...(await replacePasswordAs(context, by, userId, previousValidSeconds)) }
}

export async function resetSecondFactors(context: ActContext, companyId: string, user: NamedUser) {
  const by = { companyId, now: context.system.now() }
  const found = await requireUser(context.db, companyId, user)
  await changes.resetSecondFactors(context, by, found)
  return { userId: found.userId }
}

/** @throws Problem last_admin */
export async function deleteUser(context: ActContext, companyId: string, user: NamedUser) {
  const by = { companyId, now: context.system.now() }
  const found = await requireUser(context.db, companyId, user)
  await changes.erase(context, by, found)
  return { userId: found.userId }
}

export async function requireUser(db: Executor, companyId: string, user: NamedUser) {
  const named = 'email' in user ? { email: normalizeEmail(user.email) } : user
  const found = await findUser(db, companyId, named)
  if (!found) throw noSuchUser()
  return found
}

/** @throws Problem not_found if the company is not active, already_member, quota_reached, invalid_request */
export async function invite(
  context: ActContext & { config: Pick<Config, 'quotas'> },
  companyId: string,
  invitation: { email: string; role: string },
) {
  const by = { companyId, now: context.system.now() }
  return await asOperator(context, by, async (act) => {
    const { email } = await invitations.open(context, act, { ...invitation, now: by.now })
    await act.audit('invite', { subject: email })
    return { email }
  })
}

export async function endSessionsOfUser(context: ActContext, companyId: string, userId: string) {
  await asOperator(context, { companyId, now: context.system.now() }, async ({ tx, audit }) => {
    if (!(await endUserSessions(tx, companyId, userId, 'ended_by_operator'))) throw noSuchUser()
    await audit('sessions_end', { subject: userId })
  })
}
