import { createHash } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { Config } from '../config.ts'
import { hashOpaque } from '../crypto/opaque.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import { appendAudit, newEntry } from '../database/audit.ts'
import { createBatch } from '../database/batch.ts'
import type { Counters } from '../database/counters.ts'
import type { Database, EndReason } from '../database/schema.ts'
import { type LimitState, Problem, rateLimited } from '../errors.ts'
import { newId, type System } from '../system.ts'
import { invalidToken, type RefreshClaims } from '../token/claims.ts'
import type { Tokens, VerifiedClaims } from '../token/plugin.ts'
import type { FoundSession, Logout, Rotation, RotationOutcome, SessionWithAccount } from './repository.ts'
import * as repository from './repository.ts'
import { createSignIn, type SignInAttempt } from './sign-in.ts'

/** Sessions: how they begin, go on and end. Who may begin one is in sign-in.ts. */

export { endSessions, type SessionWithAccount } from './repository.ts'

/** A cookie session is renewed by use, but written at most once a minute. */
const RENEW_AFTER_MS = 60_000

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  tokens: Tokens
  hasher: PasswordHasher
  counters: Counters
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

export function createSessions({ db, config, system, tokens, hasher, counters }: Context) {
  const { limits } = config
  const { signIn, refuseIfCrowded } = createSignIn({ db, config, system, hasher, counters })
  const findSession = createBatch<{ companyId: string; sessionId: string }, FoundSession>({
    run: (items) => repository.findSessions(db, items),
    schedule: setImmediate,
  })
  const findCookieSession = createBatch<Buffer, FoundSession>({
    run: (hashes) => repository.findSessionsByCookieAcrossCompanies(db, hashes),
    schedule: setImmediate,
  })
  const rotate = createBatch<Rotation, RotationOutcome>({
    keyOf: keyOfSession,
    run: (items) =>
      repository.rotateSessions(db, items, {
        ttlSeconds: config.refreshTokenTtlSeconds,
        raceSeconds: config.refreshRaceSeconds,
        graceSeconds: config.refreshGraceSeconds,
        idempotencyWindowSeconds: config.idempotencyWindowSeconds,
        limit: limits.refresh,
      }),
    schedule: setImmediate,
  })

  const logOut = createBatch<Logout, boolean>({
    keyOf: keyOfSession,
    run: (items) => repository.logOutSessions(db, items),
    schedule: setImmediate,
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
   * Spends a refresh token for its successor.
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
  async function check(claims: VerifiedClaims, now: number): Promise<SessionWithAccount> {
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
    if (scope === 'session') {
      await logOut({ companyId, sessionId, now: ending.now, auditId: newId(system), ipAddress })
      return
    }
    const facts = { action: 'logout_all', outcome: 'done', actor: userId, sessionId, ipAddress }
    await db.transaction().execute(async (tx) => {
      await repository.endSessions(tx, companyId, userId, ending)
      await appendAudit(tx, companyId, newEntry(system, ending.now, facts))
    })
  }

  return {
    /** @throws what opening a session throws: see sign-in.ts */
    async signIn(attempt: SignInAttempt): Promise<SignedIn> {
      const { session, cookie, limit } = await signIn(attempt)
      const credential = cookie === null ? { tokens: await issueTokens(session, attempt.now) } : { cookie }
      return { session, credential, limit }
    },
    refuseIfCrowded,
    refresh,
    check,
    checkCookie,
    signOut,
  }
}

function keyOfSession({ companyId, sessionId }: { companyId: string; sessionId: string }): string {
  return `${companyId} ${sessionId}`
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
