import { LruMap } from 'toad-cache'
import type { Context } from '../context.ts'
import { hashOpaque } from '../crypto/opaque.ts'
import { createBatch } from '../database/batch.ts'
import { invalidToken } from '../token/claims.ts'
import type { VerifiedClaims } from '../token/service.ts'
import * as repository from './look-up-repository.ts'
import { requireLive, type Session } from './session.ts'

/** Finds the session of a credential, with the rights that its user has at this moment. */

/** Use renews a cookie session, but writes its row at most once per minute. */
const RENEW_AFTER_MS = 60_000

export interface SessionLookUp {
  /** The session of an access token. @throws Problem session_ended or invalid_token */
  byToken(claims: VerifiedClaims, now: number): Promise<Session>
  /** The session of a cookie, extended by this use. @throws Problem session_ended or invalid_token */
  byCookie(cookie: string, now: number): Promise<Session>
}

/** Sessions that are remembered, about 2 KB each. */
const MAX_REMEMBERED = 10_000

/**
 * Sessions by token id or cookie hash, with the version of their state. A remembered session is used only if the
 * statement of the request has found the same version. It saves reading it again.
 */
function createMemory() {
  const remembered = new LruMap<{ version: string; session: Session }>(MAX_REMEMBERED)
  return async (
    key: string,
    find: (known: string | null) => Promise<repository.FoundSession | null>,
  ): Promise<Session | null> => {
    const known = remembered.get(key)
    const found = await find(known?.version ?? null)
    if (!found) return null
    const { version, session } = found
    if (!session) return known?.session ?? null
    remembered.set(key, { version, session })
    return session
  }
}

export function createSessionLookUp({
  db,
  config,
  tokens,
  system,
  measureBatch,
}: Pick<Context, 'db' | 'config' | 'tokens' | 'system' | 'measureBatch'>): SessionLookUp {
  // Nobody else knows it, so nobody can bring two states of a session to the same version.
  const seed = system.randomBytes(8).readBigInt64LE().toString()
  const find = createBatch<repository.TokenItem, repository.FoundSession | null>({
    run: measureBatch('sessions', (items) => repository.findSessions(db, items, seed)),
    schedule: setImmediate,
  })
  const findByCookie = createBatch<repository.CookieItem, repository.FoundSession | null>({
    run: measureBatch('cookie_sessions', (items) =>
      repository.findSessionsByCookieAcrossCompanies(db, items, seed),
    ),
    schedule: setImmediate,
  })
  const ofToken = createMemory()
  const ofCookie = createMemory()

  async function renew(session: Session, now: number): Promise<Session> {
    const idleEnd = now + config.cookieIdleSeconds * 1000
    const expiresAt = new Date(Math.min(idleEnd, session.maxExpiresAt.getTime()))
    const renewal = { lastIssuedAt: session.issuedAt, issuedAt: new Date(now), expiresAt }
    await repository.renewCookieSession(db, session.companyId, session.sessionId, renewal)
    return { ...session, expiresAt }
  }

  return {
    async byToken(claims, now) {
      const { cid: companyId, sid: sessionId, keyId } = claims
      const session = await ofToken(sessionId, (known) => find({ companyId, sessionId, keyId, known }))
      // Rows outlive their tokens, so the key was revoked.
      if (!session) tokens.reloadKeys()
      if (session?.kind !== 'token' || session.userId !== claims.sub) throw invalidToken()
      return requireLive(session, now)
    },
    async byCookie(cookie, now) {
      const cookieHash = hashOpaque(cookie)
      const session =
        cookieHash &&
        (await ofCookie(cookieHash.toString('base64'), (known) => findByCookie({ cookieHash, known })))
      if (!session) throw invalidToken()
      requireLive(session, now)
      return now - session.issuedAt.getTime() < RENEW_AFTER_MS ? session : await renew(session, now)
    },
  }
}
