import type { Kysely } from 'kysely'
import type { Config } from '../config.ts'
import { hashOpaque } from '../crypto/opaque.ts'
import { createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Database } from '../database/schema.ts'
import { invalidToken } from '../token/claims.ts'
import type { Tokens, VerifiedClaims } from '../token/service.ts'
import * as repository from './look-up-repository.ts'
import { requireLive, type Session } from './session.ts'

/** Finds the session of a credential, with the rights that its user has at this moment. */

/** Use renews a cookie session, but writes its row at most once per minute. */
const RENEW_AFTER_MS = 60_000

interface Context {
  db: Kysely<Database>
  config: Pick<Config, 'cookieIdleSeconds'>
  tokens: Pick<Tokens, 'reloadKeys'>
  measureBatch: MeasureBatch
}

export interface SessionLookUp {
  /** The session of an access token. @throws Problem session_ended or invalid_token */
  byToken(claims: VerifiedClaims, now: number): Promise<Session>
  /** The session of a cookie, extended by this use. @throws Problem session_ended or invalid_token */
  byCookie(cookie: string, now: number): Promise<Session>
}

export function createSessionLookUp({ db, config, tokens, measureBatch }: Context): SessionLookUp {
  const find = createBatch<repository.TokenItem, repository.FoundSession>({
    run: measureBatch('sessions', (items) => repository.findSessions(db, items)),
    schedule: setImmediate,
  })
  const findByCookie = createBatch<Buffer, repository.FoundSession>({
    run: measureBatch('cookie_sessions', (hashes) =>
      repository.findSessionsByCookieAcrossCompanies(db, hashes),
    ),
    schedule: setImmediate,
  })

  async function renew(session: Session, now: number): Promise<Session> {
    const idleEnd = now + config.cookieIdleSeconds * 1000
    const expiresAt = new Date(Math.min(idleEnd, session.maxExpiresAt.getTime()))
    const renewal = { lastIssuedAt: session.issuedAt, issuedAt: new Date(now), expiresAt }
    await repository.renewCookieSession(db, session.companyId, session.sessionId, renewal)
    return { ...session, expiresAt }
  }

  return {
    async byToken(claims, now) {
      const session = await find({ companyId: claims.cid, sessionId: claims.sid, keyId: claims.keyId })
      // Rows outlive their tokens, so the key was revoked.
      if (!session) tokens.reloadKeys()
      if (session?.kind !== 'token' || session.userId !== claims.sub) throw invalidToken()
      return requireLive(session, now)
    },
    async byCookie(cookie, now) {
      const hash = hashOpaque(cookie)
      const session = hash && (await findByCookie(hash))
      if (!session) throw invalidToken()
      requireLive(session, now)
      return now - session.issuedAt.getTime() < RENEW_AFTER_MS ? session : await renew(session, now)
    },
  }
}
