import type { Kysely, Transaction } from 'kysely'
import * as companies from '../company/service.ts'
import type { Config } from '../config.ts'
import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import { HashingOverload, isOutdated, type PasswordHasher } from '../crypto/password.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { appendAudit, newEntry } from '../database/audit.ts'
import { createBatch } from '../database/batch.ts'
import type { Counters } from '../database/counters.ts'
import type { AccountRow, Database, SessionKind } from '../database/schema.ts'
import { invalidField, type LimitState, Problem } from '../errors.ts'
import { queueMail } from '../mail/service.ts'
import { newId, type System } from '../system.ts'
import type { SessionWithAccount } from './repository.ts'
import * as repository from './repository.ts'

/** Who may open a session: the one way in, and the same answer for everyone who does not get in. */

const MAX_USER_AGENT = 256

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  hasher: PasswordHasher
  counters: Counters
}

/** Rolls back what was written for a session that was not opened. */
class NotOpened extends Error {}

export interface SignInAttempt {
  companyId: string
  email: string
  password: string
  mode: SessionKind
  /** The session cookie that came with the request: the new session takes its place. */
  formerCookie: string | undefined
  /** Whom limits count: the address, or the network that it is in. */
  limitAddress: string
  ipAddress: string
  userAgent: string | undefined
  now: number
}

interface OpenedSession {
  session: SessionWithAccount
  /** The value of its cookie, in cookie mode. */
  cookie: string | null
  limit: LimitState
}

export function createSignIn({ db, config, system, hasher, counters }: Context) {
  const { limits } = config
  const findAccount = createBatch<{ companyId: string; email: string }, companies.FoundAccount>({
    run: (items) => companies.findAccountsByEmail(db, items),
  })
  let inProgress = 0

  /**
   * Refuses before anything of a request is read, counted or looked up: a flood shall cost as little as can be.
   * @throws HashingOverload if more are on their way than will be hashed soon
   */
  function refuseIfCrowded(): void {
    if (inProgress >= hasher.capacity) throw new HashingOverload('too many sign-ins are in progress')
  }

  /**
   * Opens a session for the right password. Every failure is one answer after the same work: one look-up,
   * one verification, one audit entry.
   * @throws Problem invalid_credentials, email_not_verified, rate_limited
   * @throws HashingOverload
   */
  async function signIn(attempt: SignInAttempt): Promise<OpenedSession> {
    refuseIfCrowded()
    inProgress += 1
    try {
      return await attemptSignIn(attempt)
    } finally {
      inProgress -= 1
    }
  }

  async function attemptSignIn(attempt: SignInAttempt): Promise<OpenedSession> {
    const { password, now } = attempt
    // An id has two spellings, and one of them is counted and recorded.
    const companyId = attempt.companyId.toLowerCase()
    if (isTooLong(password)) {
      throw invalidField('/password', `must have at most ${MAX_LENGTH} characters`)
    }
    const email = companies.normalizeEmail(attempt.email)
    const limit = await counters.takeHit(limits.signInAttempts, [attempt.limitAddress], now)
    // Counted as a failure beforehand and taken back on success: parallel guesses cannot outrun the count.
    const guesser = [companyId, email, attempt.limitAddress]
    const guesses = await counters.takeHit(limits.signInFailures, guesser, now)
    const returnGuess = () => counters.returnHit(limits.signInFailures, guesser, now)

    const { ipAddress } = attempt
    const audit = (outcome: string, sessionId?: string, actor = email) =>
      newEntry(system, new Date(now), { action: 'sign_in', outcome, actor, sessionId, ipAddress })
    const refuse = async (): Promise<never> => {
      // After the last guess the user is told, once they are back.
      if (guesses.remaining > 0) await appendAudit(db, companyId, audit('refused'))
      else await companies.noteLockout(db, companyId, email, audit('refused'))
      throw new Problem('invalid_credentials', 'Company, e-mail address or password is wrong.', {
        limit: guesses,
      })
    }
    const findMatch = async () => {
      const account = await findAccount({ companyId, email })
      const matches = await hasher.verify(account?.password_hash, password)
      return matches && account ? account : undefined
    }

    let found: Awaited<ReturnType<typeof findMatch>>
    try {
      found = await findMatch()
      if (found && maySignIn(found) && found.email_verified_at && isOutdated(found.password_hash)) {
        // Of several that renew it one wins, and the others have to match what it stored.
        found = (await renewHash(found, password)) ?? (await findMatch())
      }
    } catch (error) {
      // Nothing was guessed.
      await returnGuess().catch(() => {})
      throw error
    }
    if (!found || !maySignIn(found)) return await refuse()
    const {
      email_verified_at: verifiedAt,
      password_hash: passwordHash,
      locked_out_at: lockedOutAt,
      ...account
    } = found
    if (!verifiedAt) {
      await returnGuess()
      await appendAudit(db, companyId, audit('email_not_verified'))
      throw new Problem('email_not_verified', 'Open the link in the verification mail first, then sign in.', {
        limit,
      })
    }

    const { session, cookie } = newSession(account, attempt)
    const row = {
      sessionId: session.session_id,
      userId: session.user_id,
      kind: session.kind,
      cookieHash: cookie === null ? null : hashOpaque(cookie),
      createdAt: session.created_at,
      expiresAt: session.expires_at,
      maxExpiresAt: session.max_expires_at,
      userAgent: attempt.userAgent?.slice(0, MAX_USER_AGENT) ?? null,
      ipAddress: attempt.ipAddress,
      passwordHash,
    }
    const open = (executor: Kysely<Database>) =>
      repository.openSession(executor, companyId, row, audit('done', session.session_id, session.user_id))
    const formerHash = attempt.formerCookie === undefined ? null : hashOpaque(attempt.formerCookie)
    const openWithRest = async (tx: Transaction<Database>): Promise<true> => {
      // First: two who share the lock of the user's row, as `open` takes it, and then both write it, would
      // wait for each other.
      if (lockedOutAt !== null) await tellOfLockout(tx, { ...account, passwordHash }, attempt)
      if (!(await open(tx))) throw new NotOpened()
      if (formerHash !== null) await endFormerSession(tx, formerHash, attempt)
      return true
    }
    const isSimple = formerHash === null && lockedOutAt === null
    const opening = isSimple ? open(db) : db.transaction().execute(openWithRest)
    const opened = await opening.catch(async (error: unknown) => {
      if (error instanceof NotOpened) return false
      // The guess was right.
      await returnGuess().catch(() => {})
      throw error
    })
    // Disabled, suspended or given another password while the old one was checked.
    if (!opened) return await refuse()
    // The session is open: a count that stays is the lesser harm.
    await returnGuess().catch(() => {})
    return { session, cookie, limit }
  }

  /** Stores the hash with today's parameters; nothing if it has changed meanwhile. */
  async function renewHash<Account extends AccountRow & { password_hash: string }>(
    account: Account,
    password: string,
  ): Promise<Account | undefined> {
    const after = await hasher.hash(password)
    const change = { before: account.password_hash, after }
    const renewed = await companies.replacePasswordHash(db, account.company_id, account.user_id, change)
    return renewed ? { ...account, password_hash: after } : undefined
  }

  /** Who signs in anew with a session cookie will never use it again, so nobody shall (ASVS 7.2.4). */
  async function endFormerSession(
    tx: Transaction<Database>,
    cookieHash: Buffer,
    { ipAddress, now }: SignInAttempt,
  ): Promise<void> {
    const ending = { reason: 'logout', now: new Date(now) } as const
    const ended = await repository.endCookieSessionAcrossCompanies(tx, cookieHash, ending)
    if (!ended) return
    const { company_id: companyId, session_id: sessionId, user_id: actor } = ended
    const facts = { action: 'logout', outcome: 'done', actor, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, ending.now, facts))
  }

  /** A sign-in after many wrong guesses may be one that guessed right (ASVS 6.3.5). */
  async function tellOfLockout(
    tx: Transaction<Database>,
    { company_id: companyId, user_id: userId, email, passwordHash }: AccountRow & { passwordHash: string },
    { ipAddress, userAgent, now }: SignInAttempt,
  ): Promise<void> {
    if (!(await companies.clearLockout(tx, companyId, userId, passwordHash))) return
    const facts = { ipAddress, userAgent: userAgent?.slice(0, MAX_USER_AGENT) }
    await queueMail(tx, system, companyId, { kind: 'sign_in_after_lockout', recipient: email, facts, now })
  }

  function newSession(account: AccountRow, { mode, now }: SignInAttempt) {
    const [idleSeconds, maxSeconds] =
      mode === 'cookie'
        ? [config.cookieIdleSeconds, config.cookieMaxAgeSeconds]
        : [config.refreshTokenTtlSeconds, config.sessionMaxAgeSeconds]
    const createdAt = new Date(now)
    const session: SessionWithAccount = {
      ...account,
      session_id: newId(system),
      kind: mode,
      generation: 0,
      created_at: createdAt,
      issued_at: createdAt,
      expires_at: new Date(now + Math.min(idleSeconds, maxSeconds) * 1000),
      max_expires_at: new Date(now + maxSeconds * 1000),
      end_reason: null,
    }
    return { session, cookie: mode === 'cookie' ? generateOpaque(system.randomBytes) : null }
  }

  return { signIn, refuseIfCrowded }
}

function maySignIn({ user_status, company_status }: AccountRow): boolean {
  return user_status === 'active' && company_status === 'active'
}
