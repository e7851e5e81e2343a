import { LruMap } from 'toad-cache'
import { createBatch } from '../database/batch.ts'
import type { Context } from '../http/context.ts'
import { invalidToken } from '../token/claims.ts'
import type { VerifiedClaims } from '../token/plugin.ts'
import * as repository from './look-up-repository.ts'
import { isActive, requireLive, type Session } from './session.ts'

/** Each use extends a cookie session, but writes its row at most once per minute. */
const RENEW_AFTER_MS = 60_000

const HOUR_MS = 3_600_000

/** About 2 KB each. */
const MAX_REMEMBERED = 10_000

/** A remembered session is used only if the statement of the request found the same version. */
function createMemory() {
  const sessions = new LruMap<{ version: string; session: Session }>(MAX_REMEMBERED)
  return async (key: string, find: (version: string | null) => Promise<repository.FoundSession | null>) => {
    const remembered = sessions.get(key)
    const found = await find(remembered?.version ?? null)
    if (!found) return null
    const { version, session } = found
    if (!session) return remembered?.session ?? null
    sessions.set(key, { version, session })
    return session
  }
}

export type SessionLookUp = ReturnType<typeof createSessionLookUp>

/** One per process, to share statements and memory. Its functions throw Problem session_ended or invalid_token. */
export function createSessionLookUp({ db, config, tokens, system, opaque, measureBatch }: Context) {
  // Secret, so that no one can give two states of a session the same version.
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
  const findPassword = createBatch<Buffer, repository.FoundPassword | null>({
    run: measureBatch('service_passwords', (digests) =>
      repository.findServicePasswordsAcrossCompanies(db, digests),
    ),
    schedule: setImmediate,
  })
  const ofToken = createMemory()
  const ofCookie = createMemory()

  async function renew(session: Session, now: number): Promise<Session> {
    if (now - session.issuedAt.getTime() < RENEW_AFTER_MS) return session
    const idleEnd = now + config.cookieIdleSeconds * 1000
    const expiresAt = new Date(Math.min(idleEnd, session.maxExpiresAt.getTime()))
    const renewal = { lastIssuedAt: session.issuedAt, issuedAt: new Date(now), expiresAt }
    const end = await repository.renewCookieSession(db, session.companyId, session.sessionId, renewal)
    return end ? { ...session, endsAt: end } : session
  }

  return {
    async byToken(claims: VerifiedClaims, now: number): Promise<Session> {
      const { cid: companyId, sid: sessionId, keyId } = claims
      const session = await ofToken(sessionId, (remembered) =>
        find({ companyId, sessionId, keyId, remembered }),
      )
      // The row outlives the token, so its key was revoked.
      if (!session) tokens.reloadKeys()
      if (session?.kind !== 'token' || session.userId !== claims.sub) throw invalidToken()
      return requireLive(session, now)
    },
    async byCookie(cookie: string, now: number): Promise<Session> {
      const cookieHash = opaque.hash(cookie)
      const session =
        cookieHash &&
        (await ofCookie(cookieHash.toString('base64'), (remembered) =>
          findByCookie({ cookieHash, remembered }),
        ))
      if (!session) throw invalidToken()
      return requireLive(session, now)
    },
    /** For a service account that has not signed in. Limits count by the ID of its account. */
    async byServicePassword(digest: Buffer, now: number): Promise<Session> {
      const found = await findPassword(digest)
      if (!found || !isActive(found)) throw invalidToken()
      const hour = new Date(now - (now % HOUR_MS))
      if (!found.lastUsedAt || found.lastUsedAt < hour)
        await repository.storeLastUse(db, found.companyId, found, hour)
      const at = new Date(now)
      const times = {
        createdAt: at,
        issuedAt: at,
        expiresAt: at,
        maxExpiresAt: at,
        endsAt: at,
        provenAt: null,
      }
      return {
        ...found,
        ...times,
        sessionId: found.userId,
        kind: 'token',
        generation: 0,
        amr: null,
        endReason: null,
      }
    },
    renew,
  }
}
