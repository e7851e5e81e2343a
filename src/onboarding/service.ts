import type { Static } from '@sinclair/typebox'
import { checkName, checkNewCompany, checkPassword } from '../company/checks.ts'
import { giveHandle, readNamedCompany, resolveCompany } from '../company/handles.ts'
import { proveEmail } from '../company/identity-repository.ts'
import { addUser, openCompany } from '../company/service.ts'
import type { Checks, Person } from '../crypto/password-policy.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { normalizeEmail } from '../http/email-address.ts'
import { byClient, byNetwork, quotasOf, type Received } from '../limits/client.ts'
import { isOurs } from '../limits/counters.ts'
import type { MailKind } from '../mail/letters.ts'
import { queueMail } from '../mail/service.ts'
import { tellOfNewAdmin } from '../member/changes.ts'
import { findInvitationTo, takeInvitation, withdrawInvitationsOf } from '../member/invitation-repository.ts'
import { requireRoom } from '../member/invitations.ts'
import { consumeToken, countAttempt, noSuchToken, peekToken } from '../one-time-token/service.ts'
import { actIn } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { learnNetwork } from '../session/known-clients.ts'
import type { AcceptBody, AccountBody, RegisterBody, ResetBody } from './schemas.ts'

/** An emailed token shows access to the mailbox. Attempts to use one are counted first. */

/** The admin must verify the email first. @throws Problem invalid_request, rate_limited, overloaded */
export async function register(context: Context, company: Static<typeof RegisterBody>, received: Received) {
  const { db, config, system, hasher, counters } = context
  const { client, now } = received
  const { companyName, name, email } = checkNewCompany(company)
  return await counters.consumeFor(config.limits.register, byNetwork(client.network), received, async () => {
    const passwords = hasher.admit({ ...client, isKnown: false })
    const person = { email, name, companyName }
    await checkChosen({ ...context, hasher: passwords }, company.password, person, received)
    const passwordHash = await passwords.hash(company.password)
    const admin = { name, email, passwordHash, emailVerifiedAt: null, createdAt: new Date(now) }
    const { ipAddress, network } = client
    return await db.transaction().execute(async (tx) => {
      const { companyId, userId } = await openCompany(tx, system, { companyName, admin })
      const { audit, mail } = actIn(tx, system, { companyId, userId }, received)
      await mail({ kind: 'verify_email', recipient: email, data: { ipAddress }, network })
      await audit('register')
      return { companyId, userId }
    })
  })
}

/** A refused password counts against its own limit, because estimating it is costly. */
async function checkChosen(
  { config, counters, hasher, isBreached }: Omit<Context, 'hasher'> & Checks,
  password: string,
  person: Person,
  { client, now }: Received,
): Promise<void> {
  const subject = byNetwork(client.network)
  const { register, passwordChecks } = config.limits
  try {
    await counters.consume(passwordChecks, subject, { now })
    await checkPassword('password', password, person, { hasher, isBreached })
  } catch (error) {
    if (!isOurs(error)) {
      client.noteLimit(null)
      await counters.refund(quotasOf(register, subject))
    }
    throw error
  }
}

/** @throws Problem invalid_request, rate_limited */
export async function verifyEmail(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const { now } = received
  return await consumeToken(context, { purpose: 'verify', token, now }, async (tx, { companyId, email }) => {
    const proven = await proveEmail(tx, companyId, email, { at: new Date(now) })
    if (!proven) throw noSuchToken()
    const { audit, mail } = actIn(tx, context.system, { companyId, ...proven }, received)
    await audit('verify_email')
    const companyHandle = await giveHandle(tx, context, companyId, now)
    // The first email with the handle, which people need on a different device.
    await mail({ kind: 'companies', recipient: email, data: { isJustVerified: true } })
    return { companyId, companyHandle, email }
  })
}

/**
 * Does not look up the account, so that responses reveal nothing: the sender drops the email if there is none.
 * Writes no audit entry, because anyone could fill the trail. @throws Problem rate_limited
 */
export async function requestMail(
  { db, config, system, counters }: Context,
  kind: Extract<MailKind, 'verify_email' | 'password_reset' | 'companies'>,
  account: Static<typeof AccountBody>,
  { client, now }: Received,
): Promise<void> {
  const named = readNamedCompany(account)
  const recipient = normalizeEmail(account.email)
  const { ipAddress, network } = client
  // A company's servers share the turns of one network, whichever they name: the person can be in other companies, too.
  const sender = client.via?.companyId ?? network
  // Bounds the outbox and the counters below. Responses report neither limit: the second names an account.
  await counters.consumeFor(config.limits.mailRequests, byClient(client), { now }, async () => {
    const companyId = await resolveCompany(db, named)
    if (client.via && client.via.companyId !== companyId) return
    const queue = () =>
      queueMail(db, system, companyId, { kind, recipient, data: { ipAddress }, network: sender, now })
    try {
      // By company and network: neither other companies nor strangers can exhaust the owner's requests.
      const requester = byNetwork(sender, kind, companyId, recipient)
      await counters.consumeFor(config.limits.mail, requester, { now }, queue)
    } catch (error) {
      // Beyond this limit, the response is the same.
      if (!(error instanceof Problem && error.code === 'rate_limited')) throw error
    }
  })
}

/** The link stays valid. @throws Problem invalid_request, rate_limited */
export async function previewReset(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const presented = { purpose: 'reset', token, now: received.now } as const
  const { companyName, companyHandle, email, expiresAt } = await peekToken(context, presented)
  return { companyName, companyHandle, email, expiresAt: expiresAt.toISOString() }
}

/** The email about a reset lists what the account added in this time, perhaps with a stolen password. */
const ADDITIONS_MS = 7 * 86_400_000

/** Verifies the email, ends sessions, withdraws invitations. @throws Problem invalid_request, rate_limited, overloaded */
export async function resetPassword(
  context: Context,
  { token, newPassword }: Static<typeof ResetBody>,
  received: Received,
) {
  const { client, now } = received
  await countAttempt(context, received)
  const presented = { purpose: 'reset', token, now } as const
  const person = await peekToken(context, presented)
  const hasher = context.hasher.admit({ ...client, isKnown: true })
  await checkPassword('newPassword', newPassword, person, { ...context, hasher })
  const passwordHash = await hasher.hash(newPassword)
  const at = new Date(now)
  return await consumeToken(context, presented, async (tx, { companyId, email: recipient }) => {
    const proven = await proveEmail(tx, companyId, recipient, { at, passwordHash })
    if (!proven) throw noSuchToken()
    const { userId, isFirst } = proven
    if (isFirst) await giveHandle(tx, context, companyId, now)
    await endUserSessions(tx, companyId, userId, 'password_reset')
    // An attacker with the previous password could have sent them.
    const invitationsWithdrawn = await withdrawInvitationsOf(tx, companyId, userId, { now: at })
    // Guesses by others must not lock out a member who resets the password from a new network.
    await learnNetwork(context, tx, { companyId, userId }, received)
    const additionsSince = new Date(now - ADDITIONS_MS).toISOString()
    const data = { ipAddress: client.ipAddress, invitationsWithdrawn, additionsSince }
    const { audit, mail } = actIn(tx, context.system, { companyId, userId }, received)
    await mail({ kind: 'password_changed', recipient, data })
    const details = invitationsWithdrawn > 0 ? { invitationsWithdrawn } : undefined
    await audit('password_reset', { details })
    return { companyId, userId }
  })
}

/** The invitation stays valid. @throws Problem invalid_request, rate_limited */
export async function previewInvitation(context: Context, token: string, received: Received) {
  await countAttempt(context, received)
  const { companyName, email, role, expiresAt } = await peekInvitation(context, token, received)
  return { companyName, email, role, expiresAt: expiresAt.toISOString() }
}

/** @throws Problem invalid_request if the link does not work, or the sender may no longer invite */
async function peekInvitation(context: Context, token: string, { now }: Received) {
  const found = await peekToken(context, { purpose: 'invite', token, now })
  const invitation = await findInvitationTo(context.db, found.companyId, found.email)
  if (!invitation) throw noSuchToken()
  return { ...found, role: invitation.role }
}

/** The email counts as verified. @throws Problem invalid_request, quota_reached, rate_limited, overloaded */
export async function acceptInvitation(
  context: Context,
  { token, password, ...given }: Static<typeof AcceptBody>,
  received: Received,
) {
  const { system, config } = context
  const { client, now } = received
  await countAttempt(context, received)
  const invitation = await peekInvitation(context, token, received)
  const name = checkName('name', given.name)
  const hasher = context.hasher.admit({ ...client, isKnown: true })
  await checkPassword('password', password, { ...invitation, name }, { ...context, hasher })
  const passwordHash = await hasher.hash(password)
  const at = new Date(now)
  return await consumeToken(context, { purpose: 'invite', token, now }, async (tx, { companyId, email }) => {
    const invited = await takeInvitation(tx, companyId, email)
    if (!invited) throw noSuchToken()
    await requireRoom(tx, companyId, config.quotas)
    const user = { email, name, ...invited, passwordHash, emailVerifiedAt: at, createdAt: at }
    const userId = await addUser(tx, system, companyId, user)
    // The company has since gained a user with this email.
    if (userId === undefined) throw noSuchToken()
    const act = actIn(tx, system, { companyId, userId }, received)
    const { invitedBy } = invited
    if (invited.role === 'admin') await tellOfNewAdmin(act, userId, { invitedBy })
    await act.audit('accept_invitation')
    return { companyId, companyHandle: invitation.companyHandle, email, userId }
  })
}
