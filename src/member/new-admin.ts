import type { Tx } from '../database/connect.ts'
import { invalidField } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { checkMailCode, consumeCode } from '../second-factor/mailbox.ts'
import type { Act, Actor } from '../session/acts.ts'
import { sessionEnded } from '../session/session.ts'
import { findMember } from './repository.ts'

/**
 * A second admin is a lasting hold on a company, so the password of an admin is not enough to make one: it also takes a second
 * factor or an emailed code. All admins get an email.
 */

/** For `consumeAdminCode`. @throws Problem invalid_request */
export async function checkAdminCode(
  context: Context,
  actor: Actor,
  isNewAdmin: boolean,
  code: string | undefined,
): Promise<Buffer | null> {
  if (isNewAdmin) return await checkMailCode(context, actor, 'admin', code)
  if (code !== undefined) throw invalidField('mailCode', 'is only needed to make someone an admin')
  return null
}

/** Lock the actor first. @throws Problem invalid_request, session_ended */
export async function consumeAdminCode(tx: Tx, { session }: Actor, digest: Buffer | null): Promise<void> {
  const owner = await findMember(tx, session.companyId, session.userId)
  if (!owner) throw sessionEnded()
  const { kind: userKind, secondFactors } = owner
  await consumeCode(tx, session, { userKind, secondFactors }, 'admin', digest)
}

export async function tellOfNewAdmin(
  { mailAdmins }: Act,
  userId: string,
  by: { changedBy: string | null } | { invitedBy: string | null },
): Promise<void> {
  await mailAdmins({ kind: 'admin_added', data: { newAdmin: { userId, ...by } } })
}
