import type { Static } from '@sinclair/typebox'
import { changeUser } from '../company/service.ts'
import type { Context } from '../http/context.ts'
import type { Actor } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import * as changes from './changes.ts'
import { countChangeOf, noSuchMember, onMember } from './changes.ts'
import { findMember, type Member } from './repository.ts'
import type { MemberChangeBody } from './schemas.ts'

/** Admins cannot change themselves, so concurrent changes cannot leave a company without an admin. */

/** @throws Problem not_found */
export async function requireMember({ db }: Context, companyId: string, memberId: string): Promise<Member> {
  const member = await findMember(db, companyId, memberId)
  if (!member) throw noSuchMember()
  return member
}

/** @throws Problem permission_denied, not_found, invalid_request */
export async function changeMember(
  context: Context,
  actor: Actor,
  memberId: string,
  { role, assignments, status, mailCode }: Static<typeof MemberChangeBody>,
): Promise<Member> {
  await countChangeOf(context, actor, memberId)
  const before = await requireMember(context, actor.session.companyId, memberId)
  if (role !== undefined) changes.requireRoleFor(before.kind, role)
  const isPromoted = changes.isNewAdmin(before.role, role)
  const codeDigest = await changes.checkAdminCode(context, actor, isPromoted, mailCode)
  return await onMember(context, actor, { memberId }, async (act, member) => {
    const { tx, companyId } = act
    if (changes.isNewAdmin(member.role, role)) await changes.consumeAdminCode(tx, actor, codeDigest)
    if (role !== undefined && role !== member.role) await changes.changeRole(act, member, role)
    if (assignments && assignments.join() !== member.assignments.join()) {
      await changeUser(tx, companyId, memberId, { assignments })
      const details = { before: { assignments: member.assignments }, after: { assignments } }
      await act.audit('user_assignments', { subject: memberId, details })
    }
    if (status !== undefined && status !== member.status) await changes.changeStatus(act, member, status)
    const changed = await findMember(tx, companyId, memberId)
    if (!changed) throw noSuchMember()
    return changed
  })
}

/** @throws Problem permission_denied, not_found */
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

/** @throws Problem permission_denied, not_found */
export async function endSessionsOfMember(context: Context, actor: Actor, memberId: string): Promise<void> {
  await countChangeOf(context, actor, memberId)
  await onMember(context, actor, { memberId }, async ({ tx, companyId, audit }) => {
    await endUserSessions(tx, companyId, memberId, 'ended_by_admin')
    await audit('sessions_end', { subject: memberId })
  })
}
