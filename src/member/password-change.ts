import { appendAudit } from '../audit/repository.ts'
import { checkPassword } from '../company/checks.ts'
import { cancelEmailChange, replacePasswordHash } from '../company/identity-repository.ts'
import type { Context } from '../context.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import type { LimitState } from '../limits/list.ts'
import { byNetwork } from '../limits/subject.ts'
import { queueMail } from '../mail/service.ts'
import { deleteResetTokens } from '../one-time-token/repository.ts'
import { endOtherSessions } from '../session/ending-repository.ts'
import { type Session, sessionEnded } from '../session/session.ts'
import { type Act, entryOf, matchOwnPassword, turnOf } from '../sign-in/own-password.ts'

interface Change {
  currentPassword: string
  newPassword: string
  client: Client
  now: number
}

/**
 * Changes the password of a user who knows the current one, and ends the other sessions of the user. Wrong
 * guesses count together with those at sign-in.
 * @throws Problem invalid_request, session_ended, rate_limited, overloaded
 */
export type ChangePassword = (session: Session, change: Change) => Promise<LimitState>

export function createPasswordChange(context: Context): ChangePassword {
  return async (session, change) => {
    const { companyId, userId } = session
    const { currentPassword, newPassword, client, now } = change
    const act = { action: 'password_change', client, now }
    if (session.userKind === 'service')
      throw new Problem('permission_denied', 'An admin replaces the password of a service member.')
    if (newPassword.normalize('NFC') === currentPassword.normalize('NFC'))
      throw invalidField('newPassword', 'must be another than the current one')
    // Counted by network too, so that the thief of a session cannot use up the attempts of its owner.
    const changer = byNetwork(client.network, companyId, userId)
    const limit = context.config.limits.passwordChanges
    return await context.counters.consumeFor(limit, changer, now, async (state) => {
      const hasher = context.hasher.inTurn(turnOf(act))
      await checkPassword('newPassword', newPassword, session, { ...context, hasher })
      const before = await matchOwnPassword(context, session, currentPassword, act)
      if (before === null) throw wrongPassword()
      const after = await hasher.hash(newPassword)
      if (!(await replace(context, session, { before, after }, act))) throw wrongPassword()
      return state
    })
  }
}

/** Not 401, which means to clients that the session has ended. */
const wrongPassword = () => invalidField('currentPassword', 'is wrong')

/** False if the hash has changed since it was read, or user or company is not active. */
async function replace(
  context: Context,
  session: Session,
  hashes: { before: string; after: string },
  act: Act,
): Promise<boolean> {
  const { db, system } = context
  const { companyId, userId, sessionId, email: recipient } = session
  const { client, now } = act
  const data = { ipAddress: client.ipAddress }
  return await db.transaction().execute(async (tx) => {
    // The same lock order as in a password reset: mails, tokens, user, sessions.
    await deleteResetTokens(tx, companyId, recipient)
    if (!(await replacePasswordHash(tx, companyId, userId, hashes))) return false
    await cancelEmailChange(tx, companyId, userId)
    // The session can have ended while the password was checked.
    if (!(await endOtherSessions(tx, companyId, userId, sessionId, 'password_changed'))) throw sessionEnded()
    await queueMail(tx, system, companyId, { kind: 'password_changed', recipient, data, now })
    await appendAudit(tx, companyId, entryOf(context, session, act, 'done'))
    return true
  })
}
