import { checkEmail } from '../company/checks.ts'
import { takePendingEmail } from '../company/identity-repository.ts'
import { findUser } from '../company/listing-repository.ts'
import { updateUser } from '../company/repository.ts'
import type { Tx } from '../database/connect.ts'
import { isUniqueViolation } from '../database/faults.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { byNetwork } from '../limits/subject.ts'
import { deleteLinksTo } from '../one-time-token/repository.ts'
import { consumeToken, countAttempt, noSuchToken } from '../one-time-token/service.ts'
import { checkMailCode, consumeCode } from '../second-factor/mailbox.ts'
import { asOwner } from '../second-factor/own-factors.ts'
import { forgetMailboxProofs } from '../second-factor/reset-repository.ts'
import { type Actor, actIn } from '../session/acts.ts'
import { sessionEnded } from '../session/session.ts'

/** Another e-mail for one's own account. It takes effect when a link that was mailed to it is followed. */

const ACTIVE_PERSON = { kind: 'person', status: 'active' } as const

/**
 * Whether somebody else has the new e-mail is not told. A member without a second factor gives a code that was mailed to
 * that of today. @throws Problem invalid_request, permission_denied for service members, rate_limited, session_ended
 */
export async function requestEmailChange(
  context: Context,
  actor: Actor,
  { newEmail, mailCode }: { newEmail: string; mailCode?: string | undefined },
): Promise<void> {
  const { config, counters } = context
  const { session, client } = actor
  const { companyId, userId } = session
  const email = checkEmail(newEmail, 'newEmail')
  if (session.userKind === 'service')
    throw new Problem('permission_denied', 'A service member keeps its e-mail; nobody reads mail to it.')
  if (email === session.email) throw invalidField('newEmail', 'is your e-mail address already')
  const changer = byNetwork(client.network, companyId, userId)
  await counters.consumeFor(config.limits.passwordChanges, changer, actor, async () => {
    const { ipAddress, network } = client
    const codeDigest = await checkMailCode(context, actor, 'email', mailCode)
    await asOwner(context, actor, async ({ tx, audit, mail }, owner) => {
      const isFactorProven = !(await consumeCode(tx, session, owner, 'email', codeDigest))
      // In place of an earlier request.
      const isRequested = await updateUser(tx, companyId, userId, { pending_email: email }, ACTIVE_PERSON)
      if (!isRequested) throw sessionEnded()
      const data = { ipAddress, userId, isFactorProven }
      await mail({ kind: 'email_change', recipient: email, data, network })
      const recipient = session.email
      await mail({ kind: 'email_change_requested', recipient, data: { ipAddress, userId } })
      await audit('email_change_request')
    })
  })
}

/** Links and codes that were mailed to the old one no longer work. @throws Problem invalid_request, rate_limited */
export async function confirmEmailChange(context: Context, token: string, received: Received) {
  const { client, now } = received
  await countAttempt(context, received)
  return await consumeToken(context, { purpose: 'confirm', token, now }, async (tx, consumed) => {
    const { companyId, email, userId, isFactorProven } = consumed
    const user = userId === null ? undefined : await findUser(tx, companyId, { userId })
    if (!user) throw noSuchToken()
    const { audit, mail } = actIn(tx, context.system, { companyId, userId: user.userId }, received)
    // In one order: tokens, users.
    await deleteLinksTo(tx, companyId, user.email)
    const isTaken = await take(tx, companyId, user.userId, { email, at: new Date(now) })
    if (!isTaken) throw noSuchToken()
    await forgetMailboxProofs(tx, companyId, user.userId)
    const data = { ipAddress: client.ipAddress, userId: user.userId }
    const notice = isFactorProven ? 'email_changed' : 'email_changed_without_factor'
    await mail({ kind: notice, recipient: user.email, data })
    await mail({ kind: 'email_changed', recipient: email, data })
    await audit('email_change')
    return { companyId, userId: user.userId }
  })
}

/** @throws Problem invalid_request if somebody else has the e-mail by now */
async function take(tx: Tx, companyId: string, userId: string, change: { email: string; at: Date }) {
  return await takePendingEmail(tx, companyId, userId, change).catch((error: unknown) => {
    if (isUniqueViolation(error)) throw emailTaken()
    throw error
  })
}

export function emailTaken(): Problem {
  return invalidField('token', 'is for an e-mail address that another member has')
}
