import { createHash } from 'node:crypto'
import type { Kysely, Transaction } from 'kysely'
import * as companies from '../company/service.ts'
import type { Config } from '../config.ts'
import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import { isOutdated, type PasswordHasher } from '../crypto/password.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { appendAudit } from '../database/audit.ts'
import { createBatch } from '../database/batch.ts'
import { returnHit, takeHit } from '../database/counters.ts'
import { isItemFault } from '../database/faults.ts'
import type { AccountRow, Database, EndReason, SessionKind, UserStatus } from '../database/schema.ts'
import { type LimitState, Problem, rateLimited } from '../errors.ts'
import { newId, type System } from '../system.ts'
import { type AccessClaims, invalidToken, type RefreshClaims } from '../token/claims.ts'
import type { Tokens } from '../token/plugin.ts'
import type { FoundSession, Rotation, RotationOutcome, SessionWithAccount } from './repository.ts'
import * as repository from './repository.ts'

/** Sessions: who may open one, how it goes on, and what ends it. */

export type { SessionWithAccount } from './repository.ts'

/** A cookie session is renewed by use, but written at most once a minute. */
const RENEW_AFTER_MS = 60_000
const MAX_USER_AGENT = 256

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  tokens: Tokens
  hasher: PasswordHasher
}

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

/** Both tokens, and how many seconds each lasts. */
export interface IssuedTokens {
  accessToken: string
  refreshToken: string
  expiresIn: number
  refreshExpiresIn: number
}

export interface SignedIn {
  session: SessionWithAccount
  credential: { tokens: IssuedTokens } | { cookie: string }
  limit: LimitState
}

export interface Refreshed {
  session: SessionWithAccount
  tokens: IssuedTokens
  limit: LimitState
}

export type Sessions = ReturnType<typeof createSessions>

export function createSessions({ db, config, system, tokens, hasher }: Context) {
  const { limits } = config
  const batchOptions = {
    isItemFault,
    overloaded: () =>
      new Problem('overloaded', 'Too many requests at once; try again.', { retryAfterSeconds: 1 }),
    maxSize: 128,
    maxInFlight: 2,
    maxWaiting: 10_000,
  }
  const findSession = createBatch<{ companyId: string; sessionId: string }, FoundSession>({
    ...batchOptions,
    run: (items) => repository.findSessions(db, items),
  })
  const findCookieSession = createBatch<Buffer, FoundSession>({
    ...batchOptions,
    run: (hashes) => repository.findSessionsByCookieAcrossCompanies(db, hashes),
  })
  const rotate = createBatch<Rotation, RotationOutcome>({
    ...batchOptions,
    keyOf: ({ companyId, sessionId }) => `${companyId} ${sessionId}`,
    run: (items) =>
      repository.rotateSessions(db, items, {
        ttlSeconds: config.refreshTokenTtlSeconds,
        raceSeconds: config.refreshRaceSeconds,
        graceSeconds: config.refreshGraceSeconds,
        idempotencyWindowSeconds: config.idempotencyWindowSeconds,
        limit: limits.refresh,
      }),
  })

  /** Refreshes under way, by session and generation: who arrives meanwhile gets the same answer. */
  const refreshing = new Map<string, Promise<Refreshed>>()

  async function issueTokens(session: SessionWithAccount, now: number): Promise<IssuedTokens> {
    const owner = { sub: session.user_id, cid: session.company_id, sid: session.session_id }
    const nowSeconds = toSeconds(now)
    const refreshExp = toSeconds(session.expires_at.getTime())
    const accessExp = Math.min(nowSeconds + config.accessTokenTtlSeconds, refreshExp)
    // Nothing here but what the session's row says, so that a repetition makes the same bytes.
    const refreshToken = tokens.signRefresh({
      ...owner,
      gen: session.generation,
      iat: toSeconds(session.issued_at.getTime()),
      exp: refreshExp,
    })
    const accessToken = await tokens.signAccess(
      { ...owner, role: session.role, perms: session.permissions, iat: nowSeconds, exp: accessExp },
      now,
    )
    return {
      accessToken,
      refreshToken,
      expiresIn: accessExp - nowSeconds,
      refreshExpiresIn: refreshExp - nowSeconds,
    }
  }

  /**
   * Opens a session for the right password. Every failure is one answer after the same work: one look-up,
   * one verification, one audit entry.
   * @throws Problem invalid_credentials, email_not_verified, rate_limited, overloaded
   */
  async function signIn(attempt: SignInAttempt): Promise<SignedIn> {
    const { password, now } = attempt
    // An id has two spellings, and one of them is counted and recorded.
    const companyId = attempt.companyId.toLowerCase()
    if (isTooLong(password)) {
      const message = `must have at most ${MAX_LENGTH} characters`
      throw new Problem('invalid_request', `The password ${message}.`, {
        errors: [{ path: '/password', message }],
      })
    }
    const email = companies.normalizeEmail(attempt.email)
    const limit = await takeHit(db, limits.signInAttempts, [attempt.limitAddress], now)
    // Counted as a failure beforehand and taken back on success: parallel guesses cannot outrun the count.
    const guesser = [companyId, email, attempt.limitAddress]
    const guesses = await takeHit(db, limits.signInFailures, guesser, now)
    const returnGuess = () => returnHit(db, limits.signInFailures, guesser)

    const audit = (outcome: string, sessionId?: string, actor = email) => ({
      auditId: newId(system),
      occurredAt: new Date(now),
      action: 'sign_in',
      outcome,
      actor,
      sessionId,
      ipAddress: attempt.ipAddress,
    })
    const refuse = async (): Promise<never> => {
      await appendAudit(db, companyId, audit('refused'))
      throw new Problem('invalid_credentials', 'Company, e-mail address or password is wrong.', {
        limit: guesses,
      })
    }
    const findMatch = async () => {
      const account = await companies.findAccountByEmail(db, companyId, email)
      const matches = await hasher.verify(account?.password_hash, password)
      return matches ? account : undefined
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
      await returnGuess()
      throw error
    }
    if (!found || !maySignIn(found)) return await refuse()
    const { email_verified_at: verifiedAt, password_hash: passwordHash, ...account } = found
    if (!verifiedAt) {
      await returnGuess()
      await appendAudit(db, companyId, audit('email_not_verified'))
      throw new Problem('email_not_verified', 'Open the link in the verification mail first, then sign in.', {
        limit,
      })
    }

    const { session, cookie } = newSession(account, attempt)
    const opened = await db.transaction().execute(async (tx) => {
      const inserted = await repository.openSession(tx, companyId, {
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
      })
      if (!inserted) return false
      await returnHit(tx, limits.signInFailures, guesser)
      await appendAudit(tx, companyId, audit('done', session.session_id, session.user_id))
      await endFormerSession(tx, attempt)
      return true
    })
    // Disabled, suspended or given another password while the old one was checked.
    if (!opened) return await refuse()
    return {
      session,
      limit,
      credential: cookie === null ? { tokens: await issueTokens(session, now) } : { cookie },
    }
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
    { formerCookie, ipAddress, now }: SignInAttempt,
  ): Promise<void> {
    const hash = formerCookie === undefined ? null : hashOpaque(formerCookie)
    if (!hash) return
    const ending = { reason: 'logout', now: new Date(now) } as const
    const ended = await repository.endCookieSessionAcrossCompanies(tx, hash, ending)
    if (!ended) return
    await appendAudit(tx, ended.company_id, {
      auditId: newId(system),
      occurredAt: ending.now,
      action: 'logout',
      outcome: 'done',
      actor: ended.user_id,
      sessionId: ended.session_id,
      ipAddress,
    })
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

  /**
   * Spends a refresh token for its successor (INTERFACE "Refresh, exactly").
   * @throws Problem session_ended, refresh_token_reused, idempotency_conflict, rate_limited, invalid_token
   */
  async function refresh(
    claims: RefreshClaims,
    request: { idempotencyKey: string | undefined; ipAddress: string; now: number },
  ): Promise<Refreshed> {
    const token = `${claims.cid} ${claims.sid} ${claims.sub} ${claims.gen}`
    let answer = refreshing.get(token)
    if (!answer) {
      answer = rotateAndIssue(claims, request).finally(() => refreshing.delete(token))
      refreshing.set(token, answer)
    }
    return await answer
  }

  async function rotateAndIssue(
    claims: RefreshClaims,
    {
      idempotencyKey,
      ipAddress,
      now,
    }: { idempotencyKey: string | undefined; ipAddress: string; now: number },
  ): Promise<Refreshed> {
    const result = await rotate({
      companyId: claims.cid,
      sessionId: claims.sid,
      userId: claims.sub,
      generation: claims.gen,
      key: idempotencyKey === undefined ? null : hashKey(idempotencyKey),
      now: new Date(now),
      auditId: newId(system),
      ipAddress,
    })
    switch (result.outcome) {
      case 'rotated':
      case 'repeated':
        return {
          session: result.session,
          tokens: await issueTokens(result.session, now),
          limit: {
            ...limits.refresh,
            remaining: Math.max(0, limits.refresh.max - result.used),
            resetSeconds: result.resetSeconds,
          },
        }
      case 'ended':
        throw sessionEnded(endReasonOf(result.session, now) ?? 'expired')
      case 'conflict':
        throw new Problem(
          'idempotency_conflict',
          'This Idempotency-Key was used with an earlier token of the session; send a new key with each token.',
        )
      case 'limited':
        throw rateLimited({ ...limits.refresh, remaining: 0, resetSeconds: result.resetSeconds })
      case 'raced':
        throw new Problem(
          'refresh_token_reused',
          'Another request used this token a moment ago; go on with the token that it received.',
        )
      case 'reused':
        throw new Problem(
          'refresh_token_reused',
          'This token was used before, so the session has ended to be safe; sign in again.',
          { reason: 'refresh_reuse' },
        )
      case 'unknown':
        throw invalidToken()
    }
  }

  /**
   * The session that an access token speaks for, as it is at this moment.
   * @throws Problem session_ended or invalid_token
   */
  async function check(claims: AccessClaims, now: number): Promise<SessionWithAccount> {
    const session = await findSession({ companyId: claims.cid, sessionId: claims.sid })
    if (session?.kind !== 'token' || session.user_id !== claims.sub) throw invalidToken()
    return requireLive(session, now)
  }

  /**
   * The session that a cookie stands for; using it moves its idle limit.
   * @throws Problem session_ended or invalid_token
   */
  async function checkCookie(cookie: string, now: number): Promise<SessionWithAccount> {
    const hash = hashOpaque(cookie)
    const session = hash && (await findCookieSession(hash))
    if (!session) throw invalidToken()
    requireLive(session, now)
    if (now - session.issued_at.getTime() < RENEW_AFTER_MS) return session
    const expiresAt = new Date(
      Math.min(now + config.cookieIdleSeconds * 1000, session.max_expires_at.getTime()),
    )
    await repository.renewCookieSession(db, session.company_id, session.session_id, {
      lastIssuedAt: session.issued_at,
      issuedAt: new Date(now),
      expiresAt,
    })
    return { ...session, expires_at: expiresAt }
  }

  /** Ends the session, or all of its user's: once this returns, none of their credentials work anywhere. */
  async function signOut(
    session: SessionWithAccount,
    { scope, ipAddress, now }: { scope: 'session' | 'all'; ipAddress: string; now: number },
  ): Promise<void> {
    const { company_id: companyId, session_id: sessionId, user_id: userId } = session
    const ending = { reason: 'logout', now: new Date(now) } as const
    await db.transaction().execute(async (tx) => {
      if (scope === 'all') await repository.endSessions(tx, companyId, userId, ending)
      else await repository.endSession(tx, companyId, sessionId, ending)
      await appendAudit(tx, companyId, {
        auditId: newId(system),
        occurredAt: ending.now,
        action: scope === 'all' ? 'logout_all' : 'logout',
        outcome: 'done',
        actor: userId,
        sessionId,
        ipAddress,
      })
    })
  }

  return { signIn, refresh, check, checkCookie, signOut }
}

/**
 * Disables a user, whose sessions end with it, or enables one, who then has to sign in.
 * @throws Problem not_found
 */
export async function changeUserStatus(
  { db, system }: { db: Kysely<Database>; system: System },
  companyId: string,
  user: { userId: string } | { email: string },
  status: UserStatus,
): Promise<{ userId: string }> {
  const now = new Date(system.now())
  return await db.transaction().execute(async (tx) => {
    const userId = await companies.setUserStatus(tx, companyId, user, status)
    if (userId === undefined) throw new Problem('not_found', 'The company has no such user.')
    if (status === 'disabled')
      await repository.endSessions(tx, companyId, userId, { reason: 'user_disabled', now })
    await companies.auditOperator(
      tx,
      system,
      companyId,
      status === 'disabled' ? 'user_disable' : 'user_enable',
      userId,
    )
    return { userId }
  })
}

/**
 * Suspends a company, whose sessions end with it, or resumes it.
 * @throws Problem not_found
 */
export async function changeCompanyStatus(
  { db, system }: { db: Kysely<Database>; system: System },
  companyId: string,
  status: 'active' | 'suspended',
): Promise<void> {
  const now = new Date(system.now())
  await db.transaction().execute(async (tx) => {
    if (!(await companies.setCompanyStatus(tx, companyId, status))) throw companies.noSuchCompany()
    if (status === 'suspended')
      await repository.endSessions(tx, companyId, null, { reason: 'company_suspended', now })
    await companies.auditOperator(
      tx,
      system,
      companyId,
      status === 'suspended' ? 'company_suspend' : 'company_resume',
    )
  })
}

/** Ends all sessions of a company, or of one user; returns how many. */
export async function endSessionsByOperator(
  { db, system }: { db: Kysely<Database>; system: System },
  companyId: string,
  userId: string | null,
): Promise<number> {
  const now = new Date(system.now())
  return await db.transaction().execute(async (tx) => {
    const ended = await repository.endSessions(tx, companyId, userId, { reason: 'ended_by_operator', now })
    await companies.auditOperator(tx, system, companyId, 'sessions_end', userId ?? undefined)
    return ended
  })
}

function maySignIn({ user_status, company_status }: AccountRow): boolean {
  return user_status === 'active' && company_status === 'active'
}

function requireLive(session: SessionWithAccount, now: number): SessionWithAccount {
  const reason = endReasonOf(session, now)
  if (reason) throw sessionEnded(reason)
  return session
}

/** Why a session is over, or null; expiry is a matter of time, and needs nobody to write it down. */
function endReasonOf(session: SessionWithAccount, now: number): EndReason | null {
  if (session.end_reason) return session.end_reason
  if (session.expires_at.getTime() <= now) return 'expired'
  if (session.user_status !== 'active') return 'user_disabled'
  if (session.company_status !== 'active') return 'company_suspended'
  return null
}

function sessionEnded(reason: EndReason): Problem {
  return new Problem('session_ended', 'The session has ended; sign in again.', { reason })
}

/** The part of a key that is stored: enough to tell a session's few dozen keys apart. */
function hashKey(key: string): string {
  return createHash('sha256').update(key).digest().readBigInt64BE().toString()
}

function toSeconds(ms: number): number {
  return Math.floor(ms / 1000)
}
