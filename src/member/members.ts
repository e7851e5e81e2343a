import { changeAssignments } from '../company/service.ts'
import type { Context } from '../context.ts'
import { Problem } from '../errors.ts'
import { deleteResetTokens } from '../one-time-token/repository.ts'
import { resetFactors } from '../second-factor/reset.ts'
import { endOtherCompanySessions, endUserSessions, lockCompany } from '../session/ending-repository.ts'
import { type Actor, asManager, noSuchMember, onMember } from './acting.ts'
import * as changes from './changes.ts'
import { findMember, type Member } from './repository.ts'

/**
 * What admins do to the members of their company. Whoever acts stays an admin, so no company is left without one, also
 * under parallel changes.
 */

export interface MemberChange {
  role?: string
  assignments?: string[]
  status?: 'active' | 'disabled'
}

/** Returns a member. @throws Problem not_found */
export async function requireMember({ db }: Context, companyId: string, memberId: string): Promise<Member> {
  const member = await findMember(db, companyId, memberId)
  if (!member) throw noSuchMember()
  return member
}

/**
 * Changes what is given, from the next request on; a member who is disabled has no session any more.
 * @throws Problem permission_denied, not_found, invalid_request
 */
export async function changeMember(
  context: Context,
  actor: Actor,
  memberId: string,
  { role, assignments, status }: MemberChange,
): Promise<Member> {
  const { companyId } = actor.session
  return await onMember(context, actor, memberId, async (tx, member, audit) => {
    const note = (action: string, before: object, after: object) =>
      audit({ action, subject: memberId, details: { before, after } })
    if (role !== undefined && role !== member.role) {
      await changes.changeRole(tx, companyId, member, role)
      await note('user_role', { role: member.role }, { role })
    }
    if (assignments && assignments.join() !== member.assignments.join()) {
      await changeAssignments(tx, companyId, memberId, assignments)
      await note('user_assignments', { assignments: member.assignments }, { assignments })
    }
    if (status !== undefined && status !== member.status) {
      await changes.changeStatus(tx, companyId, memberId, status)
      await audit({ action: status === 'disabled' ? 'user_disable' : 'user_enable', subject: memberId })
    }
    const changed = await findMember(tx, companyId, memberId)
    if (!changed) throw noSuchMember()
    return changed
  })
}

/** Leaves nothing of a member but the id. @throws Problem permission_denied, not_found */
export async function deleteMember(context: Context, actor: Actor, memberId: string): Promise<void> {
  const { companyId } = actor.session
  // Mails are locked before users, so the e-mail is read before the member is locked.
  const { email } = await requireMember(context, companyId, memberId)
  await onMember(
    context,
    actor,
    memberId,
    async (tx, member, audit) => {
      // It was changed meanwhile.
      const erased = { userId: memberId, email: member.email }
      if (member.email !== email) await changes.forgetMailsTo(tx, companyId, erased)
      await changes.erase(tx, companyId, erased)
      await audit({ action: 'user_delete', subject: memberId })
    },
    async (tx) => await changes.forgetMailsTo(tx, companyId, { userId: memberId, email }),
  )
}

/**
 * For somebody who has lost their second factors: those and the password are void, the sessions end, and a link to choose
 * another password is mailed.
 * @throws Problem permission_denied, not_found
 */
export async function resetSecondFactors(context: Context, actor: Actor, memberId: string): Promise<void> {
  const { companyId } = actor.session
  const { email } = await requireMember(context, companyId, memberId)
  await onMember(
    context,
    actor,
    memberId,
    async (tx, member, audit) => {
      if (member.kind === 'service') throw new Problem('not_found', 'A service member has no second factors.')
      // It was changed meanwhile.
      if (member.email !== email) await deleteResetTokens(tx, companyId, member.email)
      const reset = { companyId, userId: memberId, email: member.email }
      await resetFactors(tx, context.system, reset, { reason: 'ended_by_admin', now: actor.now })
      await audit({ action: 'second_factors_reset', subject: memberId })
    },
    // Mails are locked before users.
    async (tx) => await deleteResetTokens(tx, companyId, email),
  )
}

/** Ends all sessions of a member. @throws Problem permission_denied, not_found */
export async function endSessionsOfMember(context: Context, actor: Actor, memberId: string): Promise<void> {
  await onMember(context, actor, memberId, async (tx, _member, audit) => {
    await endUserSessions(tx, actor.session.companyId, memberId, 'ended_by_admin')
    await audit({ action: 'sessions_end', subject: memberId })
  })
}

/** Ends all sessions of the company but that of the actor. @throws Problem permission_denied */
export async function endOtherSessionsOfCompany(context: Context, actor: Actor): Promise<void> {
  const { companyId, sessionId } = actor.session
  await asManager(
    context,
    actor,
    async (tx, audit) => {
      await endOtherCompanySessions(tx, companyId, sessionId, 'ended_by_admin')
      await audit({ action: 'sessions_end' })
    },
    async (tx) => await lockCompany(tx, companyId),
  )
}
