import { checkName, checkPassword } from '../company/checks.ts'
import { cancelEmailChange, replacePasswordHash } from '../company/identity-repository.ts'
import { changeUser } from '../company/service.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { byNetwork } from '../limits/subject.ts'
import { deleteResetTokens } from '../one-time-token/repository.ts'
import { type Act, type ActContext, type Actor, actIn, countChange, perform } from '../session/acts.ts'
import { endOtherSessions } from '../session/ending-repository.ts'
import { matchCurrentPassword, turnOf } from '../session/passwords.ts'
import { sessionEnded } from '../session/session.ts'
import { lockActorAndMember } from './repository.ts'

/** Returns the name in its stored form. @throws Problem invalid_request, session_ended, rate_limited */
export async function changeOwnName(context: Context, actor: Actor, given: string): Promise<string> {
  const { companyId, userId } = actor.session
  const name = checkName('name', given)
  await countChange(context, actor)
  const lock = async (tx: Act['tx']) => await lockActorAndMember(tx, companyId, userId, userId)
  await perform(context, actor, { permission: null, lock }, async ({ tx, audit }, member) => {
    if (member?.name === name) return
    await changeUser(tx, companyId, userId, { name })
    await audit('name_change')
  })
  return name
}

/**
 * Ends the other sessions of the user. Wrong guesses count together with those at sign-in.
 * @throws Problem invalid_request, session_ended, rate_limited, overloaded
 */
export async function changePassword(
  context: Context,
  actor: Actor,
  { currentPassword, newPassword }: { currentPassword: string; newPassword: string },
): Promise<void> {
  const { session, client } = actor
  const { companyId, userId } = session
  if (session.userKind === 'service')
    throw new Problem('permission_denied', 'An admin replaces the password of a service member.')
  if (newPassword.normalize('NFC') === currentPassword.normalize('NFC'))
    throw invalidField('newPassword', 'must be another than the current one')
  // Counted by network too, so that the thief of a session cannot use up the attempts of its owner.
  const changer = byNetwork(client.network, companyId, userId)
  const limit = context.config.limits.passwordChanges
  await context.counters.consumeFor(limit, changer, actor, async () => {
    const hasher = context.hasher.inTurn(turnOf(actor))
    await checkPassword('newPassword', newPassword, session, { ...context, hasher })
    const before = await matchCurrentPassword(context, actor, currentPassword)
    if (before === null) throw wrongPassword()
    const after = await hasher.hash(newPassword)
    if (!(await replace(context, actor, { before, after }))) throw wrongPassword()
  })
}

/** Not 401, which means to clients that the session has ended. */
const wrongPassword = () => invalidField('currentPassword', 'is wrong')

/** False if the hash has changed since it was read, or user or company is not active. */
async function replace({ db, system }: ActContext, actor: Actor, hashes: { before: string; after: string }) {
  const { session, client } = actor
  const { companyId, userId, sessionId, email: recipient } = session
  const data = { ipAddress: client.ipAddress }
  return await db.transaction().execute(async (tx) => {
    // The same lock order as in a password reset: mails, tokens, user, sessions.
    await deleteResetTokens(tx, companyId, recipient)
    if (!(await replacePasswordHash(tx, companyId, userId, hashes))) return false
    await cancelEmailChange(tx, companyId, userId)
    // The session can have ended while the password was checked.
    if (!(await endOtherSessions(tx, companyId, userId, sessionId, 'password_changed'))) throw sessionEnded()
    const { audit, mail } = actIn(tx, system, session, actor)
    await mail({ kind: 'password_changed', recipient, data })
    await audit('password_change')
    return true
  })
}
