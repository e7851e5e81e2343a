import { forgetEmail } from '../audit/repository.ts'
import { cancelEmailChange } from '../company/identity-repository.ts'
import { changeUser, ERASED, noSuchUser, requireOtherAdmin } from '../company/service.ts'
import type { Tx } from '../database/connect.ts'
import type { UserKind } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { deleteMailsTo, deleteNoticesTo } from '../mail/repository.ts'
import { deleteResetTokens, deleteTokensOf } from '../one-time-token/repository.ts'
import { checkMailCode, consumeCode } from '../second-factor/mailbox.ts'
import { resetFactors } from '../second-factor/policy.ts'
import { deleteAllOf as deleteFactorsOf } from '../second-factor/reset-repository.ts'
import {
  type Act,
  type ActContext,
  type Actor,
  countChange,
  type Operator,
  perform,
} from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { forgetClients } from '../session/repository.ts'
import { sessionEnded } from '../session/session.ts'
import { dropInvitationsOf } from './invitation-repository.ts'
import { findMember, lockActorAndMember, type Member } from './repository.ts'
import { deleteServicePasswords } from './service-passwords-repository.ts'

/** Admins and operators change members. Lock order: emails, tokens, users, sessions. */

type Person = { userId: string; email: string }

/** `prepare` takes the locks that come before users. @throws Problem permission_denied, session_ended, rate_limited */
export async function asManager<Result>(
  context: Context,
  actor: Actor,
  work: (act: Act) => Promise<Result>,
  prepare?: (tx: Tx, companyId: string) => Promise<void>,
): Promise<Result> {
  const { userId } = actor.session
  await countChange(context, actor)
  const lock = async (tx: Tx, companyId: string) => {
    await prepare?.(tx, companyId)
    await lockActorAndMember(tx, companyId, userId, userId)
  }
  return await perform(context, actor, { permission: 'members:manage', lock }, work)
}

/** Call it before `onMember`. @throws Problem permission_denied for the actor's own id; rate_limited */
export async function countChangeOf(context: Context, actor: Actor, memberId: string): Promise<void> {
  if (memberId === actor.session.userId)
    throw new Problem('permission_denied', 'You cannot do this to your own account. Ask another admin.')
  await countChange(context, actor)
}

interface Change {
  memberId: string
  /** The member stops being an active admin. */
  endsAdmin?: boolean
  /** The actor is the member, and needs no permission. */
  isOwn?: boolean
  /** `remove` deletes emails and links to `email`. Its locks come before users. */
  links?: { email: string; remove(tx: Tx, companyId: string, email: string): Promise<void> }
}

/**
 * Locks the member before `work`. With `endsAdmin`, one more admin must exist: that is the actor, if it is a different user.
 * @throws Problem permission_denied, session_ended, not_found, last_admin
 */
export async function onMember<Result>(
  context: ActContext,
  actor: Actor | Operator,
  { memberId, endsAdmin = false, isOwn = false, links }: Change,
  work: (act: Act, member: Member) => Promise<Result>,
): Promise<Result> {
  const session = 'session' in actor ? actor.session : null
  const lock = async (tx: Tx, companyId: string) => {
    await links?.remove(tx, companyId, links.email)
    if ((!session || isOwn) && endsAdmin) await requireOtherAdmin(tx, companyId, memberId)
    return await lockActorAndMember(tx, companyId, session?.userId ?? memberId, memberId)
  }
  const permission = isOwn ? null : 'members:manage'
  return await perform(context, actor, { permission, lock }, async (act, member) => {
    if (!member) throw session ? noSuchMember() : noSuchUser()
    // The email changed after it was read.
    if (links && links.email !== member.email) await links.remove(act.tx, act.companyId, member.email)
    return await work(act, member)
  })
}

export function noSuchMember(): Problem {
  return new Problem('not_found', 'No member of the company has this ID.')
}

/** @throws Problem invalid_request; a foreign key refuses unknown roles */
export async function changeRole(act: Act, { id: userId, kind, role: before }: Member, role: string) {
  const { tx, companyId, audit } = act
  requireRoleFor(kind, role)
  await changeUser(tx, companyId, userId, { role })
  await dropInvitationsOf(tx, companyId, userId)
  if (isNewAdmin(before, role)) await tellOfNewAdmin(act, userId, { changedBy: act.memberId })
  await audit('user_role', { subject: userId, details: { before: { role: before }, after: { role } } })
}

export function isNewAdmin(before: string, role: string | undefined): boolean {
  return role === 'admin' && before !== 'admin'
}

/** @throws Problem invalid_request for a service account as an admin */
export function requireRoleFor(kind: UserKind, role: string): void {
  if (kind === 'service' && role === 'admin')
    throw invalidField('role', 'must not be admin for a service account')
}

export async function changeStatus({ tx, companyId, audit }: Act, { id }: Member, status: Member['status']) {
  await changeUser(tx, companyId, id, { status })
  if (status === 'disabled') {
    await endUserSessions(tx, companyId, id, 'user_disabled')
    await cancelEmailChange(tx, companyId, id)
    await dropInvitationsOf(tx, companyId, id)
  }
  await audit(status === 'disabled' ? 'user_disable' : 'user_enable', { subject: id })
}

/**
 * Keeps only the id, which audit entries and the signing secret refer to.
 * @throws Problem permission_denied, session_ended, not_found, last_admin
 */
export async function erase(context: ActContext, actor: Actor | Operator, { userId, email }: Person) {
  const remove = async (tx: Tx, companyId: string, email: string) => {
    await deleteMailsTo(tx, companyId, { userId, email })
    await deleteTokensOf(tx, companyId, { userId, email })
  }
  const isOwn = 'session' in actor && actor.session.userId === userId
  const change = { memberId: userId, endsAdmin: true, isOwn, links: { email, remove } }
  await onMember(context, actor, change, async ({ tx, companyId, audit }, { email }) => {
    await deleteFactorsOf(tx, companyId, userId)
    await deleteServicePasswords(tx, companyId, userId)
    await changeUser(tx, companyId, userId, ERASED)
    await dropInvitationsOf(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'user_deleted')
    await forgetClients(tx, companyId, userId)
    await deleteNoticesTo(tx, companyId, { userId, email })
    await deleteTokensOf(tx, companyId, { userId, email })
    await forgetEmail(tx, companyId, email)
    await audit('user_delete', { subject: userId })
  })
}

/** Removes the password too, and emails a reset link. @throws Problem permission_denied, session_ended, not_found */
export async function resetSecondFactors(
  context: ActContext,
  actor: Actor | Operator,
  { userId, email }: Person,
): Promise<void> {
  const change = { memberId: userId, links: { email, remove: deleteResetTokens } }
  await onMember(context, actor, change, async (act, { kind, email }) => {
    if (kind === 'service') throw new Problem('not_found', 'Service accounts have no second factors.')
    const reason = 'session' in actor ? 'ended_by_admin' : 'ended_by_operator'
    await resetFactors(act, { userId, email }, reason)
    await act.audit('second_factors_reset', { subject: userId })
  })
}

// A new admin is a lasting hold on a company, so an admin's password is not enough to add one. It also takes a
// second factor or an emailed code, and all admins get an email.

/** For `consumeAdminCode`. @throws Problem invalid_request */
export async function checkAdminCode(
  context: Context,
  actor: Actor,
  isNewAdmin: boolean,
  code: string | undefined,
): Promise<Buffer | null> {
  if (isNewAdmin) return await checkMailCode(context, actor, 'admin', code)
  if (code !== undefined) throw invalidField('mailCode', 'must only be sent to make someone an admin')
  return null
}

/** Lock the actor first. @throws Problem invalid_request, session_ended */
export async function consumeAdminCode(tx: Tx, { session }: Actor, digest: Buffer | null): Promise<void> {
  const owner = await findMember(tx, session.companyId, session.userId)
  if (!owner) throw sessionEnded()
  await consumeCode(tx, session, { ...owner, userKind: owner.kind }, { use: 'admin', digest })
}

export async function tellOfNewAdmin(
  { mailAdmins }: Act,
  userId: string,
  by: { changedBy: string | null } | { invitedBy: string | null },
): Promise<void> {
  await mailAdmins({ kind: 'admin_added', data: { newAdmin: { userId, ...by } } })
}
