import type { MasterKey } from '../config.ts'
import { deriveKey } from '../crypto/sealing.ts'

/**
 * The keys of refresh tokens (HS256), which only this service verifies. One key is derived from each master
 * key. The first key signs, all keys verify.
 */
export interface RefreshKeys {
  sign(claims: Record<string, unknown>): string
  /** The verifier of tokens that start with exactly this header part; undefined if there is none. */
  verifierOf(header: string): ((token: string) => unknown) | undefined
}

const REFRESH_AUDIENCE = 'gatehouse/refresh'

/** The options of @fastify/jwt, and of fast-jwt inside it, for the key that one master key gives. */
export function refreshTokenOptions({ id, key }: MasterKey, issuer: string) {
  return {
    secret: deriveKey(key, 'refresh tokens'),
    /** The header part of its tokens, byte for byte. */
    header: Buffer.from(JSON.stringify({ alg: 'HS256', typ: 'rt+jwt', kid: id })).toString('base64url'),
    sign: {
      algorithm: 'HS256' as const,
      header: { alg: 'HS256', typ: 'rt+jwt' },
      kid: id,
      iss: issuer,
      aud: REFRESH_AUDIENCE,
    },
    verify: {
      algorithms: ['HS256' as const],
      checkTyp: 'rt+jwt',
      allowedIss: issuer,
      allowedAud: REFRESH_AUDIENCE,
      // claims.ts checks the times, by our own clock.
      ignoreExpiration: true,
      ignoreNotBefore: true,
      cache: false,
    },
  }
}
