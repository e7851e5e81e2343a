import type { Kysely, Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { checkName, checkNewCompany, checkPassword, normalizeEmail } from '../company/checks.ts'
import { proveEmail } from '../company/identity-repository.ts'
import { addUser, openCompany } from '../company/service.ts'
import type { Config } from '../config.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import type { Counters } from '../limits/counters.ts'
import type { LimitState } from '../limits/list.ts'
import type { LinkedKind } from '../mail/letters.ts'
import { queueMail } from '../mail/service.ts'
import { consumeToken, noSuchToken, peekToken } from '../one-time-token/service.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import type { System } from '../system.ts'

/** Registration, verification, reset, invitations. A mailed token proves that the client reads the e-mail. */

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  hasher: PasswordHasher
  counters: Counters
}

/** The client of a request, and its time in milliseconds. */
export interface Received {
  client: Client
  now: number
}

export type Onboarding = ReturnType<typeof createOnboarding>

export function createOnboarding(context: Context) {
  return {
    /**
     * Opens a company in trial. Its admin can sign in after the verification of the e-mail.
     * @throws Problem invalid_request, rate_limited, overloaded
     */
    register: (company: NewCompany, received: Received) => register(context, company, received),
    /** Verifies an e-mail by its mailed token. @throws Problem invalid_request, rate_limited */
    verifyEmail: (token: string, received: Received) => verifyEmail(context, token, received),
    /** Queues a mail to this e-mail. The sender drops it if there is no such account. */
    requestMail: (kind: RequestedKind, account: { companyId: string; email: string }, received: Received) =>
      requestMail(context, kind, account, received),
    /**
     * Sets a new password by the mailed token, which also verifies the e-mail. All sessions of the user end.
     * @throws Problem invalid_request, rate_limited, overloaded
     */
    resetPassword: (reset: { token: string; newPassword: string }, received: Received) =>
      resetPassword(context, reset, received),
    /** Returns the data of an invitation, which stays valid. @throws Problem invalid_request, rate_limited */
    previewInvitation: (token: string, received: Received) => previewInvitation(context, token, received),
    /**
     * Creates the invited user, whose e-mail counts as verified.
     * @throws Problem invalid_request, rate_limited, overloaded
     */
    acceptInvitation: (acceptance: Acceptance, received: Received) =>
      acceptInvitation(context, acceptance, received),
  }
}

interface NewCompany {
  companyName: string
  name: string
  email: string
  password: string
}

async function register(context: Context, company: NewCompany, { client, now }: Received) {
  const { db, config, system, hasher, counters } = context
  const { companyName, name, email } = checkNewCompany(company)
  return await counters.consumeFor(config.limits.register, [client.network], now, async (limit) => {
    const passwordHash = await hasher.hash(company.password)
    const admin = { name, email, passwordHash, emailVerifiedAt: null, createdAt: new Date(now) }
    const data = { ipAddress: client.ipAddress }
    return await db.transaction().execute(async (tx) => {
      const { companyId, userId } = await openCompany(tx, system, { companyName, admin })
      await queueMail(tx, system, companyId, { kind: 'verify_email', recipient: email, data, now })
      await audit(context, tx, companyId, { action: 'register', actor: userId }, { client, now })
      return { companyId, userId, limit }
    })
  })
}

async function verifyEmail(context: Context, token: string, received: Received) {
  const limit = await countAttempt(context, received)
  const { now } = received
  return await consumeToken(context.db, 'verify', token, now, async (tx, { companyId, email }) => {
    const userId = await proveEmail(tx, companyId, email, { at: new Date(now) })
    if (userId === undefined) throw noSuchToken()
    await audit(context, tx, companyId, { action: 'verify_email', actor: userId }, received)
    return { companyId, limit }
  })
}

type RequestedKind = Extract<LinkedKind, 'verify_email' | 'password_reset'>

/**
 * Looks nothing up, so that neither the time nor the content of the answer reveals whether the account
 * exists. Appends no audit entry, because anyone could fill the table, which is never pruned.
 */
async function requestMail(
  { db, config, system, counters }: Context,
  kind: RequestedKind,
  account: { companyId: string; email: string },
  { client, now }: Received,
): Promise<void> {
  const companyId = account.companyId.toLowerCase()
  const recipient = normalizeEmail(account.email)
  const data = { ipAddress: client.ipAddress }
  try {
    // Counted by company too, so that requests in one company do not use up those in another.
    await counters.consumeFor(config.limits.mail, [kind, companyId, recipient], now, () =>
      queueMail(db, system, companyId, { kind, recipient, data, now }),
    )
  } catch (error) {
    // Enough mails were requested; the answer is the same.
    if (!(error instanceof Problem && error.code === 'rate_limited')) throw error
  }
}

async function resetPassword(
  context: Context,
  { token, newPassword }: { token: string; newPassword: string },
  received: Received,
): Promise<LimitState> {
  const { db, system, hasher } = context
  const { client, now } = received
  const limit = await countAttempt(context, received)
  checkPassword('newPassword', newPassword, await peekToken(db, 'reset', token, now))
  const passwordHash = await hasher.hash(newPassword)
  const at = new Date(now)
  const data = { ipAddress: client.ipAddress }
  await consumeToken(db, 'reset', token, now, async (tx, { companyId, email: recipient }) => {
    const userId = await proveEmail(tx, companyId, recipient, { at, passwordHash })
    if (userId === undefined) throw noSuchToken()
    await endUserSessions(tx, companyId, userId, { reason: 'password_reset', now: at })
    await queueMail(tx, system, companyId, { kind: 'password_changed', recipient, data, now })
    await audit(context, tx, companyId, { action: 'password_reset', actor: userId }, received)
  })
  return limit
}

async function previewInvitation(context: Context, token: string, received: Received) {
  const limit = await countAttempt(context, received)
  const { companyName, email, role, expiresAt } = await peekToken(context.db, 'invite', token, received.now)
  return { invitation: { companyName, email, role: role ?? '', expiresAt: expiresAt.toISOString() }, limit }
}

interface Acceptance {
  token: string
  name: string
  password: string
}

async function acceptInvitation(context: Context, acceptance: Acceptance, received: Received) {
  const { db, system, hasher } = context
  const { token, password } = acceptance
  const { now } = received
  const limit = await countAttempt(context, received)
  const invitation = await peekToken(db, 'invite', token, now)
  const name = checkName('name', acceptance.name)
  checkPassword('password', password, invitation)
  const passwordHash = await hasher.hash(password)
  const at = new Date(now)
  return await consumeToken(db, 'invite', token, now, async (tx, { companyId, email, role }) => {
    const user = { email, name, role: role ?? '', passwordHash, emailVerifiedAt: at, createdAt: at }
    const userId = await addUser(tx, system, companyId, user)
    // The company got a user with this e-mail meanwhile.
    if (userId === undefined) throw noSuchToken()
    await audit(context, tx, companyId, { action: 'accept_invitation', actor: userId }, received)
    return { companyId, userId, limit }
  })
}

async function countAttempt({ counters, config }: Context, { client, now }: Received): Promise<LimitState> {
  return await counters.consume(config.limits.oneTimeTokens, [client.network], now)
}

async function audit(
  { system }: Context,
  tx: Transaction<Database>,
  companyId: string,
  about: { action: string; actor: string },
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  await appendAudit(tx, companyId, newEntry(system, new Date(now), { ...about, outcome: 'done', ipAddress }))
}
