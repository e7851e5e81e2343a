import { LruMap } from 'toad-cache'
import { newId, type System } from '../system.ts'
import {
  type AccessClaims,
  checkTimes,
  invalidToken,
  type RefreshClaims,
  readRefreshClaims,
  refreshTokenId,
} from './claims.ts'
import { headerPartOf } from './es256.ts'
import type { KeyRing } from './key-ring.ts'
import type { Key } from './keys.ts'

export interface RefreshKeys {
  sign(claims: Record<string, unknown>): string
  /** The verifier of tokens with exactly this header part. */
  verifierOf(header: string): ((token: string) => unknown) | undefined
}

/**
 * Issues and verifies both kinds of token. A header must be, byte for byte, one that this service writes: algorithm, type
 * and key are fixed before anything is parsed (RFC 8725, sections 3.1 and 3.11).
 */
export interface Tokens {
  /** Claims are in Unix seconds (RFC 9068), `now` is in ms. */
  signAccess(claims: Omit<AccessClaims, 'iss' | 'aud' | 'jti' | 'nbf'>, now: number): Promise<string>
  /** @throws Problem invalid_token or token_expired */
  verifyAccess(token: string, now: number): Promise<VerifiedClaims>
  /** Equal claims give equal bytes, so that a lost answer can be repeated. */
  signRefresh(claims: Omit<RefreshClaims, 'iss' | 'aud' | 'jti'>): string
  /** @throws Problem invalid_token or token_expired */
  verifyRefresh(token: string, now: number): RefreshClaims
  publishedKeys: KeyRing['published']
  /** For a verified token without a session: its key can be revoked. */
  reloadKeys: KeyRing['reload']
}

/** The look-up of the session must confirm that the key is not revoked. */
export type VerifiedClaims = Pick<
  AccessClaims,
  'sub' | 'cid' | 'sid' | 'iat' | 'nbf' | 'exp' | 'auth_time'
> & {
  keyId: string
}

const MAX_VERIFIED = 10_000

interface Parts {
  ring: KeyRing
  refreshKeys: RefreshKeys
  system: System
}

export function createTokens({ ring, refreshKeys, system }: Parts): Tokens {
  // By exact token. Only the verification of the signature is saved: key and times are checked each time.
  const verified = new LruMap<VerifiedClaims>(MAX_VERIFIED)
  return {
    async signAccess(claims, now) {
      const key = await ring.signing(now)
      return key.sign({ ...claims, jti: newId(system) })
    },
    async verifyAccess(token, now) {
      const known = verified.get(token)
      const header = known ? token.slice(0, token.indexOf('.')) : headerOf(token)
      const key = await ring.byHeader(header, now)
      if (!key) throw invalidToken()
      const claims = known ?? genuine(() => toVerified(key.verify(token), key))
      checkTimes('access', claims, now)
      // All genuine tokens of a retired key have expired.
      if (key.isRetired(now)) throw invalidToken()
      if (!known) verified.set(token, claims)
      return claims
    },
    signRefresh: (claims) => refreshKeys.sign({ ...claims, jti: refreshTokenId(claims) }),
    verifyRefresh(token, now) {
      const verify = refreshKeys.verifierOf(headerOf(token))
      if (!verify) throw invalidToken()
      const claims = readRefreshClaims(genuine(() => verify(token)))
      checkTimes('refresh', claims, now)
      return claims
    },
    publishedKeys: ring.published,
    reloadKeys: ring.reload,
  }
}

function toVerified(
  { sub, cid, sid, iat, nbf, exp, auth_time }: AccessClaims,
  { keyId }: Key,
): VerifiedClaims {
  const optional = { ...(nbf !== undefined && { nbf }), ...(auth_time !== undefined && { auth_time }) }
  return { sub, cid, sid, iat, exp, keyId, ...optional }
}

function headerOf(token: string): string {
  const header = headerPartOf(token)
  if (header === null) throw invalidToken()
  return header
}

function genuine<Payload>(verify: () => Payload): Payload {
  try {
    return verify()
  } catch {
    throw invalidToken()
  }
}
