import type { Transaction } from 'kysely'
import type { Act, ActContext, Actor, Operator } from '../acts.ts'
import { forgetEmail } from '../audit/repository.ts'
import { cancelEmailChange } from '../company/identity-repository.ts'
import * as companies from '../company/service.ts'
import type { Database, UserKind } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import { forgetNotices, forgetRecipient } from '../mail/service.ts'
import { deleteResetTokens, deleteTokensOf } from '../one-time-token/repository.ts'
import { resetFactors } from '../second-factor/reset.ts'
import { deleteAllOf as deleteFactorsOf } from '../second-factor/reset-repository.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { forgetClients } from '../sign-in/known-clients-repository.ts'
import { onMember } from './acting.ts'
import { dropInvitationsOf } from './invitation-repository.ts'
import type { Member } from './repository.ts'

/** What is done to a member, by admins and operators. All of it locks in one order: mails, tokens, users, sessions. */

type Tx = Transaction<Database>
type Person = { userId: string; email: string }

/** Holds from the next request on. @throws Problem not_found, invalid_request; a foreign key refuses unknown roles */
export async function changeRole(
  { tx, companyId, audit }: Act,
  { id: userId, kind, role: before }: Member,
  role: string,
): Promise<void> {
  requireRoleFor(kind, role)
  await companies.changeUserRole(tx, companyId, userId, role)
  await dropInvitationsOf(tx, companyId, userId)
  await audit('user_role', { subject: userId, details: { before: { role: before }, after: { role } } })
}

/** @throws Problem invalid_request: servers are not admins */
export function requireRoleFor(kind: UserKind, role: string): void {
  if (kind === 'service' && role === 'admin')
    throw invalidField('role', 'must be another than admin for a service member')
}

/** A disabled member has no session any more. One who is enabled again signs in again. @throws Problem not_found */
export async function changeStatus(
  { tx, companyId, audit }: Act,
  { id: userId }: Member,
  status: 'active' | 'disabled',
): Promise<void> {
  await companies.changeUserStatus(tx, companyId, userId, status)
  if (status === 'disabled') {
    await endUserSessions(tx, companyId, userId, 'user_disabled')
    await cancelEmailChange(tx, companyId, userId)
    await dropInvitationsOf(tx, companyId, userId)
  }
  await audit(status === 'disabled' ? 'user_disable' : 'user_enable', { subject: userId })
}

/**
 * Leaves nothing of a member but the id, which audit entries and the signing secret name. The sessions end, no mail to the
 * member is sent, and no link of one works.
 * @throws Problem permission_denied, session_ended, not_found, last_admin
 */
export async function erase(
  context: ActContext,
  actor: Actor | Operator,
  { userId, email: before }: Person,
): Promise<void> {
  const forgetMails = async (tx: Tx, companyId: string, email: string) => {
    await forgetRecipient(tx, companyId, { userId, email })
    await deleteTokensOf(tx, companyId, { userId, email })
  }
  const work = async ({ tx, companyId, audit }: Act, { email }: Member) => {
    // It was changed meanwhile.
    if (email !== before) await forgetMails(tx, companyId, email)
    await deleteFactorsOf(tx, companyId, userId)
    await companies.eraseUser(tx, companyId, userId)
    await dropInvitationsOf(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'user_deleted')
    await forgetClients(tx, companyId, userId)
    await forgetNotices(tx, companyId, { userId, email })
    await deleteTokensOf(tx, companyId, { userId, email })
    await forgetEmail(tx, companyId, email)
    await audit('user_delete', { subject: userId })
  }
  const prepare = async (tx: Tx, companyId: string) => await forgetMails(tx, companyId, before)
  await onMember(context, actor, userId, work, { endsAdmin: true, prepare })
}

/**
 * For a member who has lost their second factors: those and the password are void, the sessions end, and a link to choose
 * another password is mailed.
 * @throws Problem permission_denied, session_ended, not_found
 */
export async function resetSecondFactors(
  context: ActContext,
  actor: Actor | Operator,
  { userId, email: before }: Person,
): Promise<void> {
  const work = async (act: Act, { kind, email }: Member) => {
    if (kind === 'service') throw new Problem('not_found', 'A service member has no second factors.')
    // It was changed meanwhile.
    if (email !== before) await deleteResetTokens(act.tx, act.companyId, email)
    const reason = 'session' in actor ? 'ended_by_admin' : 'ended_by_operator'
    await resetFactors(act, { userId, email }, reason)
    await act.audit('second_factors_reset', { subject: userId })
  }
  const prepare = async (tx: Tx, companyId: string) => await deleteResetTokens(tx, companyId, before)
  await onMember(context, actor, userId, work, { prepare })
}
