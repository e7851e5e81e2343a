import type { Static } from '@sinclair/typebox'
import { checkEmail, checkName, checkPassword } from '../company/checks.ts'
import * as identity from '../company/identity-repository.ts'
import { findUser } from '../company/listing-repository.ts'
import { lockUser, updateUser } from '../company/repository.ts'
import { changeUser } from '../company/service.ts'
import type { Tx } from '../database/connect.ts'
import { isUniqueViolation } from '../database/faults.ts'
import { EMAIL_TAKEN, invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { byNetwork, type Received } from '../limits/client.ts'
import { deleteEmailChangeMails, deleteUnsentUndos } from '../mail/repository.ts'
import * as tokens from '../one-time-token/repository.ts'
import { consumeToken, countAttempt, findUndo, noSuchToken, peekToken } from '../one-time-token/service.ts'
import { checkMailCode, consumeCode } from '../second-factor/mailbox.ts'
import { asOwner } from '../second-factor/own-factors.ts'
import { deleteAllOf as deleteFactorsOf, forgetMailboxProofs } from '../second-factor/reset-repository.ts'
import { type Actor, actIn, countChange, perform } from '../session/acts.ts'
import { endOtherSessions, endUserSessions } from '../session/ending-repository.ts'
import { applicantOf, matchCurrentPassword } from '../session/passwords.ts'
import { isActive, sessionEnded } from '../session/session.ts'
import { withdrawInvitationsOf } from './invitation-repository.ts'
import { findEmailChange, listAdditions, lockActorAndMember } from './repository.ts'
import type { EmailChangeBody, PasswordChangeBody } from './schemas.ts'

/** A user's own account: name, password, email, and links that undo changes made without a second factor. */

/** Returns the name in its stored form. @throws Problem invalid_request, session_ended, rate_limited */
export async function changeOwnName(context: Context, actor: Actor, given: string): Promise<string> {
  const { companyId, userId } = actor.session
  const name = checkName('name', given)
  await countChange(context, actor)
  const lock = async (tx: Tx) => await lockActorAndMember(tx, companyId, userId, userId)
  await perform(context, actor, { permission: null, lock }, async ({ tx, audit }, member) => {
    if (member?.name === name) return
    await changeUser(tx, companyId, userId, { name })
    await audit('name_change')
  })
  return name
}

/** Ends the user's other sessions. @throws Problem invalid_request, session_ended, rate_limited, overloaded */
export async function changePassword(
  context: Context,
  actor: Actor,
  { currentPassword, newPassword }: Static<typeof PasswordChangeBody>,
): Promise<void> {
  const { session } = actor
  if (session.userKind === 'service')
    throw new Problem(
      'permission_denied',
      'Service accounts cannot change their own password. Ask an admin to replace it.',
    )
  if (newPassword.normalize('NFC') === currentPassword.normalize('NFC'))
    throw invalidField('newPassword', 'must be different from the current password')
  await counted(context, actor, async () => {
    const hasher = context.hasher.admit(applicantOf(actor))
    await checkPassword('newPassword', newPassword, session, { ...context, hasher })
    const before = await matchCurrentPassword(context, actor, currentPassword)
    const isReplaced =
      before !== null && (await replace(context, actor, { before, after: await hasher.hash(newPassword) }))
    // Not 401, which clients take as the end of the session.
    if (!isReplaced) throw invalidField('currentPassword', 'is wrong')
  })
}

/** Counted by network too, so that someone who stole a session cannot consume all attempts of its owner. */
async function counted(context: Context, actor: Actor, work: () => Promise<void>): Promise<void> {
  const { session, client } = actor
  const changer = byNetwork(client.network, session.companyId, session.userId)
  await context.counters.consumeFor(context.config.limits.passwordChanges, changer, actor, work)
}

/** False if the hash changed since it was read, or the user or company is not active. */
async function replace({ db, system }: Context, actor: Actor, hashes: { before: string; after: string }) {
  const { session, client } = actor
  const { companyId, userId, sessionId, email: recipient } = session
  return await db.transaction().execute(async (tx) => {
    // Lock order, as in a password reset: emails, tokens, user, sessions.
    await tokens.deleteResetTokens(tx, companyId, recipient)
    if (!(await identity.replacePasswordHash(tx, companyId, userId, hashes))) return false
    await identity.cancelEmailChange(tx, companyId, userId)
    // The session may have ended while the password was checked.
    if (!(await endOtherSessions(tx, companyId, { userId, sessionId, reason: 'password_changed' })))
      throw sessionEnded()
    const { audit, mail } = actIn(tx, system, session, actor)
    await mail({ kind: 'password_changed', recipient, data: { ipAddress: client.ipAddress } })
    await audit('password_change')
    return true
  })
}

/**
 * Takes effect when the user opens the link sent to the new email. Does not reveal whether someone else has it.
 * @throws Problem invalid_request, permission_denied for service accounts, rate_limited, session_ended
 */
export async function requestEmailChange(
  context: Context,
  actor: Actor,
  { newEmail, mailCode }: Static<typeof EmailChangeBody>,
): Promise<void> {
  const { session } = actor
  const { companyId, userId } = session
  const { ipAddress, network } = actor.client
  const email = checkEmail(newEmail, 'newEmail')
  if (session.userKind === 'service')
    throw new Problem('permission_denied', 'Service accounts cannot change their email.')
  if (email === session.email) throw invalidField('newEmail', 'is already your email address')
  await counted(context, actor, async () => {
    const digest = await checkMailCode(context, actor, 'email', mailCode)
    await asOwner(context, actor, async ({ tx, audit, mail }, owner) => {
      const isFactorProven = !(await consumeCode(tx, session, owner, { use: 'email', digest }))
      const self = { userId, kind: 'person', status: 'active' } as const
      if (!(await updateUser(tx, companyId, self, { pending_email: email }))) throw sessionEnded()
      const data = { ipAddress, userId, isFactorProven }
      await mail({ kind: 'email_change', recipient: email, data, network })
      await mail({ kind: 'email_change_requested', recipient: session.email, data: { ipAddress, userId } })
      await audit('email_change_request')
    })
  })
}

/** @throws Problem not_found */
export async function requireEmailChange({ db }: Context, { session, now }: Actor) {
  const found = await findEmailChange(db, session.companyId, session.userId, new Date(now))
  if (!found) throw noEmailChange()
  return found
}

/** Not idempotent: 204 means that a concurrent confirmation fails. @throws Problem not_found, session_ended, rate_limited */
export async function withdrawEmailChange(context: Context, actor: Actor): Promise<void> {
  const { companyId, userId } = actor.session
  await countChange(context, actor)
  const lock = async (tx: Tx) => {
    // Lock order: emails, tokens, users.
    await deleteEmailChangeMails(tx, companyId, userId)
    await tokens.deleteConfirmTokens(tx, companyId, userId)
    await lockUser(tx, companyId, userId)
  }
  await perform(context, actor, { permission: null, lock }, async ({ tx, audit }) => {
    if (!(await identity.cancelEmailChange(tx, companyId, userId))) throw noEmailChange()
    await audit('email_change_withdraw')
  })
}

function noEmailChange(): Problem {
  const detail = 'You have no pending email change. Request one with POST /auth/email/change.'
  return new Problem('not_found', detail)
}

/** The link stays valid. @throws Problem invalid_request, rate_limited */
export async function previewEmailChange(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const presented = { purpose: 'confirm', token, now: received.now } as const
  const { companyId, userId, email: newEmail } = await peekToken(context, presented)
  const user = userId === null ? undefined : await identity.findPendingEmail(context.db, companyId, userId)
  if (!user?.email || !isActive(user) || user.pendingEmail !== newEmail) throw noSuchToken()
  return { companyName: user.companyName, email: user.email, newEmail }
}

/** Ends the links and codes of the previous email. @throws Problem invalid_request, rate_limited */
export async function confirmEmailChange(context: Context, token: string, received: Received) {
  const { client, now } = received
  await countAttempt(context, received)
  return await consumeToken(context, { purpose: 'confirm', token, now }, async (tx, consumed) => {
    const { companyId, email, userId, isFactorProven } = consumed
    const user = userId === null ? undefined : await findUser(tx, companyId, { userId })
    if (!user) throw noSuchToken()
    const ids = { companyId, userId: user.userId }
    const { audit, mail } = actIn(tx, context.system, ids, received)
    // Lock order: tokens, users.
    await tokens.deleteLinksTo(tx, companyId, user.email)
    const change = { email, at: new Date(now) }
    const isTaken = await unlessOwned(identity.takePendingEmail(tx, companyId, user.userId, change))
    if (!isTaken) throw noSuchToken()
    await forgetMailboxProofs(tx, companyId, user.userId)
    const data = { ipAddress: client.ipAddress, userId: user.userId }
    const notice = isFactorProven ? 'email_changed' : 'email_changed_without_factor'
    await mail({ kind: notice, recipient: user.email, data })
    await mail({ kind: 'email_changed', recipient: email, data })
    await audit('email_change')
    return ids
  })
}

/** @throws Problem invalid_request if a different member now has the email */
async function unlessOwned<Result>(change: Promise<Result>): Promise<Result> {
  return await change.catch((error: unknown) => {
    if (!isUniqueViolation(error)) throw error
    throw invalidField('token', EMAIL_TAKEN)
  })
}

/** Clocks of instances differ by up to a minute, so the minute before the change counts as after it. */
const CLOCK_SLACK_MS = 60_000

/**
 * Leaves an attacker no way in: the password, factors, sessions, links, and later invitations are gone.
 * @throws Problem invalid_request, rate_limited
 */
export async function undo(context: Context, token: string, received: Received) {
  const { client, now } = received
  await countAttempt(context, received)
  const found = await findUndo(context, token, now)
  const { companyId, userId, currentEmail } = found
  return await context.db.transaction().execute(async (tx) => {
    // Lock order: emails, tokens, users, sessions.
    await deleteUnsentUndos(tx, companyId, found)
    await tokens.deleteUnsentResetsTo(tx, companyId, currentEmail)
    const undone = await tokens.consumeUndo(tx, companyId, { ...found, now: new Date(now) })
    if (!undone) throw noSuchToken()
    const { email } = undone
    const former = await unlessOwned(identity.restoreEmail(tx, companyId, userId, email))
    if (former === undefined) throw noSuchToken()
    // A concurrent change that held the lock may have queued or sent a link, or changed the email.
    await deleteUnsentUndos(tx, companyId, found)
    await tokens.deleteLaterUndos(tx, companyId, found)
    if (former !== currentEmail) await tokens.deleteLinksTo(tx, companyId, former)
    await deleteFactorsOf(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'password_reset')
    const since = new Date(undone.madeAt.getTime() - CLOCK_SLACK_MS)
    await withdrawInvitationsOf(tx, companyId, userId, { since, now: new Date(now) })
    const { audit, mail } = actIn(tx, context.system, { companyId, userId }, received)
    const notice = { ipAddress: client.ipAddress, userId }
    if (former !== email) await mail({ kind: 'email_restored', recipient: former, data: notice })
    const data = { isPasswordVoid: true, additionsSince: since.toISOString() }
    await mail({ kind: 'password_reset', recipient: email, data })
    await audit('undo')
    const additions = await listAdditions(tx, companyId, { userId, since })
    return { companyId, userId, email, additions }
  })
}
