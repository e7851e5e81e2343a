import type { Transaction } from 'kysely'
import { forgetEmail } from '../audit/repository.ts'
import { cancelEmailChange } from '../company/identity-repository.ts'
import * as companies from '../company/service.ts'
import type { Database, UserKind } from '../database/schema.ts'
import { invalidField } from '../errors.ts'
import { forgetNotices, forgetRecipient } from '../mail/service.ts'
import { deleteTokensOf } from '../one-time-token/repository.ts'
import { deleteAllOf as deleteFactorsOf } from '../second-factor/reset-repository.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { forgetClients } from '../sign-in/known-clients-repository.ts'
import { dropInvitationsOf } from './invitation-repository.ts'

/**
 * What each change of a member consists of, whoever makes it. They run in the transaction that has decided that it is
 * allowed. All of them lock in one order: mails, tokens, users, sessions.
 */

type Tx = Transaction<Database>

/** Holds from the next request on. @throws Problem not_found, invalid_request; a foreign key refuses unknown roles */
export async function changeRole(
  tx: Tx,
  companyId: string,
  { id: userId, kind }: { id: string; kind: UserKind },
  role: string,
): Promise<void> {
  requireRoleFor(kind, role)
  await companies.changeUserRole(tx, companyId, userId, role)
  await dropInvitationsOf(tx, companyId, userId)
}

/** @throws Problem invalid_request: servers are not admins */
export function requireRoleFor(kind: UserKind, role: string): void {
  if (kind === 'service' && role === 'admin')
    throw invalidField('role', 'must be another than admin for a service member')
}

/** A disabled member has no session any more. One who is enabled again signs in again. @throws Problem not_found */
export async function changeStatus(
  tx: Tx,
  companyId: string,
  userId: string,
  status: 'active' | 'disabled',
): Promise<void> {
  await companies.changeUserStatus(tx, companyId, userId, status)
  if (status === 'active') return
  await endUserSessions(tx, companyId, userId, 'user_disabled')
  await cancelEmailChange(tx, companyId, userId)
  await dropInvitationsOf(tx, companyId, userId)
}

/** Before `erase`, and before the member is locked: afterwards no mail to the member is sent, and no link of one works. */
export async function forgetMailsTo(
  tx: Tx,
  companyId: string,
  member: { userId: string; email: string },
): Promise<void> {
  await forgetRecipient(tx, companyId, member)
  await deleteTokensOf(tx, companyId, member)
}

/**
 * E-mail, name and password are gone for good, and the sessions end. The id stays, because audit entries and the signing
 * secret name it.
 * @throws Problem not_found
 */
export async function erase(
  tx: Tx,
  companyId: string,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await deleteFactorsOf(tx, companyId, userId)
  await companies.eraseUser(tx, companyId, userId)
  await dropInvitationsOf(tx, companyId, userId)
  await endUserSessions(tx, companyId, userId, 'user_deleted')
  await forgetClients(tx, companyId, userId)
  await forgetNotices(tx, companyId, { userId, email })
  await deleteTokensOf(tx, companyId, { userId, email })
  await forgetEmail(tx, companyId, email)
}
