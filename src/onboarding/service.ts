import type { Kysely, Transaction } from 'kysely'
import * as companies from '../company/service.ts'
import type { Config } from '../config.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import { appendAudit, newEntry } from '../database/audit.ts'
import type { Counters } from '../database/counters.ts'
import type { Database, MailKind, TokenPurpose } from '../database/schema.ts'
import { invalidField, type LimitState, Problem } from '../errors.ts'
import { queueMail } from '../mail/service.ts'
import * as sessions from '../session/service.ts'
import type { System } from '../system.ts'
import { hashToken } from './one-time-token.ts'
import * as repository from './repository.ts'

/** How companies and people come in, and back in, by themselves: whoever reads the mail of an address owns it. */

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  hasher: PasswordHasher
  counters: Counters
}

/** Who asks, for limits and for the record. */
export interface Asker {
  /** Whom limits count: the address, or the network that it is in. */
  limitAddress: string
  ipAddress: string
  now: number
}

export type Onboarding = ReturnType<typeof createOnboarding>

export function createOnboarding({ db, config, system, hasher, counters }: Context) {
  const { limits } = config

  /**
   * Opens a company in trial, whose admin can sign in once their address is verified.
   * @throws Problem invalid_request, rate_limited
   * @throws HashingOverload
   */
  async function register(
    {
      companyName,
      name,
      email,
      password,
    }: { companyName: string; name: string; email: string; password: string },
    { limitAddress, ipAddress, now }: Asker,
  ): Promise<{ companyId: string; userId: string; limit: LimitState }> {
    const checked = companies.checkNewUser({ companyName, name, email, password })
    const recipient = checked.email
    return await counters.countFor(limits.register, [limitAddress], now, async (limit) => {
      const passwordHash = await hasher.hash(password)
      return await db.transaction().execute(async (tx) => {
        const { companyId, userId } = await companies.insertCompanyWithAdmin(tx, system, {
          ...checked,
          passwordHash,
          emailVerifiedAt: null,
          createdAt: new Date(now),
        })
        const mail = { kind: 'verify_email', recipient, facts: { ipAddress }, now } as const
        await queueMail(tx, system, companyId, mail)
        await audit(tx, companyId, { action: 'register', actor: userId, ipAddress, now })
        return { companyId, userId, limit }
      })
    })
  }

  /**
   * Proves an address by the token that was sent there.
   * @throws Problem invalid_request, rate_limited
   */
  async function verifyEmail(token: string, asker: Asker): Promise<{ companyId: string; limit: LimitState }> {
    const limit = await countAttempt(asker)
    const companyId = await spend(
      'verify',
      token,
      asker.now,
      async (tx, { company_id: companyId, email }) => {
        const userId = await companies.proveAddress(tx, companyId, email, { at: new Date(asker.now) })
        if (userId === undefined) throw noSuchToken()
        await audit(tx, companyId, { ...asker, action: 'verify_email', actor: userId })
        return companyId
      },
    )
    return { companyId, limit }
  }

  /**
   * Queues a mail for whoever has this address. Nothing is looked up here, so that the answer takes as long
   * and says as much for an address that nobody has; nor audited, where anybody could fill what is kept for ever.
   */
  async function requestMail(
    kind: Extract<MailKind, 'verify_email' | 'password_reset'>,
    { companyId, email }: { companyId: string; email: string },
    { ipAddress, now }: Asker,
  ): Promise<void> {
    const id = companyId.toLowerCase()
    const recipient = companies.normalizeEmail(email)
    try {
      // By company, so that nobody can use up the mail of an address by asking for it elsewhere.
      await counters.countFor(limits.mail, [kind, id, recipient], now, () =>
        queueMail(db, system, id, { kind, recipient, facts: { ipAddress }, now }),
      )
    } catch (error) {
      // Enough of them are on their way.
      if (!(error instanceof Problem && error.code === 'rate_limited')) throw error
    }
  }

  /**
   * Sets a new password by the token that was sent to the user's address, which is proven by that. All of
   * their sessions end.
   * @throws Problem invalid_request, rate_limited
   * @throws HashingOverload
   */
  async function resetPassword(token: string, newPassword: string, asker: Asker): Promise<LimitState> {
    const limit = await countAttempt(asker)
    const { company_name: companyName, email } = await look('reset', token, asker.now)
    companies.checkPassword(newPassword, { email, companyName }, '/newPassword')
    const passwordHash = await hasher.hash(newPassword)
    const { ipAddress, now } = asker
    const at = new Date(now)
    await spend('reset', token, now, async (tx, { company_id: companyId, email }) => {
      const userId = await companies.proveAddress(tx, companyId, email, { at, passwordHash })
      if (userId === undefined) throw noSuchToken()
      await sessions.endSessions(tx, companyId, userId, { reason: 'password_reset', now: at })
      await queueMail(tx, system, companyId, {
        kind: 'password_changed',
        recipient: email,
        facts: { ipAddress },
        now,
      })
      await audit(tx, companyId, { ...asker, action: 'password_reset', actor: userId })
    })
    return limit
  }

  /**
   * What an invitation is to; it stays open.
   * @throws Problem invalid_request, rate_limited
   */
  async function previewInvitation(token: string, asker: Asker) {
    const limit = await countAttempt(asker)
    const {
      company_name: companyName,
      email,
      role,
      expires_at: expiresAt,
    } = await look('invite', token, asker.now)
    return { invitation: { companyName, email, role: role ?? '', expiresAt: expiresAt.toISOString() }, limit }
  }

  /**
   * Makes the invited person a user, whose address counts as verified.
   * @throws Problem invalid_request, rate_limited
   * @throws HashingOverload
   */
  async function acceptInvitation(
    { token, name, password }: { token: string; name: string; password: string },
    asker: Asker,
  ): Promise<{ companyId: string; userId: string; limit: LimitState }> {
    const limit = await countAttempt(asker)
    const { company_name: companyName, email } = await look('invite', token, asker.now)
    const checked = companies.checkNewUser({ companyName, name, email, password })
    const passwordHash = await hasher.hash(password)
    const at = new Date(asker.now)
    const accepted = await spend('invite', token, asker.now, async (tx, { company_id: companyId, role }) => {
      const userId = await companies.insertMember(tx, system, companyId, {
        email,
        name: checked.name,
        role: role ?? '',
        passwordHash,
        emailVerifiedAt: at,
        createdAt: at,
      })
      // The address has become a user's in another way meanwhile.
      if (userId === undefined) throw noSuchToken()
      await audit(tx, companyId, { ...asker, action: 'accept_invitation', actor: userId })
      return { companyId, userId }
    })
    return { ...accepted, limit }
  }

  async function countAttempt({ limitAddress, now }: Asker): Promise<LimitState> {
    return await counters.takeHit(limits.oneTimeTokens, [limitAddress], now)
  }

  async function look(purpose: TokenPurpose, token: string, now: number): Promise<repository.FoundToken> {
    const hash = hashToken(purpose, token)
    const found = hash && (await repository.findTokenAcrossCompanies(db, purpose, hash, new Date(now)))
    if (!found) throw noSuchToken()
    return found
  }

  /** Uses a token up together with its effect: if that fails, it was not used. */
  async function spend<Result>(
    purpose: TokenPurpose,
    token: string,
    now: number,
    effect: (tx: Transaction<Database>, used: repository.UsedToken) => Promise<Result>,
  ): Promise<Result> {
    const hash = hashToken(purpose, token)
    if (!hash) throw noSuchToken()
    return await db.transaction().execute(async (tx) => {
      const used = await repository.useTokenAcrossCompanies(tx, purpose, hash, new Date(now))
      if (!used) throw noSuchToken()
      return await effect(tx, used)
    })
  }

  async function audit(
    tx: Transaction<Database>,
    companyId: string,
    { action, actor, ipAddress, now }: { action: string; actor: string; ipAddress: string; now: number },
  ): Promise<void> {
    const facts = { action, outcome: 'done', actor, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), facts))
  }

  return { register, verifyEmail, requestMail, resetPassword, previewInvitation, acceptInvitation }
}

/**
 * Invites an address to a company, by mail.
 * @throws Problem not_found for an unknown company, invalid_request for an address that cannot be invited or an unknown role
 */
export async function invite(
  { db, system }: { db: Kysely<Database>; system: System },
  companyId: string,
  invitation: { email: string; role: string },
): Promise<{ email: string }> {
  const now = system.now()
  return await db.transaction().execute(async (tx) => {
    const email = await companies.checkInvitation(tx, companyId, invitation)
    const facts = { role: invitation.role }
    await queueMail(tx, system, companyId, { kind: 'invitation', recipient: email, facts, now })
    await companies.auditOperator(tx, system, companyId, 'invite', email)
    return { email }
  })
}

function noSuchToken(): Problem {
  const detail = 'The link does not work, or no more; ask for a new one.'
  return invalidField('/token', 'is unknown, used, replaced or expired', detail)
}
