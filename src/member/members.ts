import type { Act, Actor } from '../acts.ts'
import { changeAssignments } from '../company/service.ts'
import type { Context } from '../context.ts'
import { endOtherCompanySessions, endUserSessions, lockCompany } from '../session/ending-repository.ts'
import { asManager, countChangeOf, noSuchMember, onMember } from './acting.ts'
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
  await countChangeOf(context, actor, memberId)
  return await onMember(context, actor, memberId, async (act, member) => {
    const { tx, companyId } = act
    if (role !== undefined && role !== member.role) await changes.changeRole(act, member, role)
    if (assignments && assignments.join() !== member.assignments.join()) {
      await changeAssignments(tx, companyId, memberId, assignments)
      const details = { before: { assignments: member.assignments }, after: { assignments } }
      await act.audit('user_assignments', { subject: memberId, details })
    }
    if (status !== undefined && status !== member.status) await changes.changeStatus(act, member, status)
    const changed = await findMember(tx, companyId, memberId)
    if (!changed) throw noSuchMember()
    return changed
  })
}

/** Leaves nothing of a member but the id. @throws Problem permission_denied, not_found */
export async function deleteMember(context: Context, actor: Actor, memberId: string): Promise<void> {
  const { email } = await requireMember(context, actor.session.companyId, memberId)
  await countChangeOf(context, actor, memberId)
  await changes.erase(context, actor, { userId: memberId, email })
}

/** @throws Problem permission_denied, not_found */
export async function resetSecondFactors(context: Context, actor: Actor, memberId: string): Promise<void> {
  const { email } = await requireMember(context, actor.session.companyId, memberId)
  await countChangeOf(context, actor, memberId)
  await changes.resetSecondFactors(context, actor, { userId: memberId, email })
}

/** Ends all sessions of a member. @throws Problem permission_denied, not_found */
export async function endSessionsOfMember(context: Context, actor: Actor, memberId: string): Promise<void> {
  await countChangeOf(context, actor, memberId)
  await onMember(context, actor, memberId, async ({ tx, companyId, audit }) => {
    await endUserSessions(tx, companyId, memberId, 'ended_by_admin')
    await audit('sessions_end', { subject: memberId })
  })
}

/** Ends all sessions of the company but that of the actor. @throws Problem permission_denied */
export async function endOtherSessionsOfCompany(context: Context, actor: Actor): Promise<void> {
  const work = async ({ tx, companyId, audit }: Act) => {
    await endOtherCompanySessions(tx, companyId, actor.session.sessionId, 'ended_by_admin')
    await audit('sessions_end')
  }
  await asManager(context, actor, work, lockCompany)
}
