import type { MasterKey } from '../config.ts'
import { deriveKey } from '../crypto/sealing.ts'

/**
 * The keys of refresh tokens (HS256), which only this service reads: one derived from each master key. The
 * first signs, all verify.
 */
export interface RefreshKeys {
  sign(claims: Record<string, unknown>): string
  /** The verifier of tokens that start with exactly this part; undefined if there is none. */
  verifierOf(header: string): ((token: string) => unknown) | undefined
}

const REFRESH_AUDIENCE = 'gatehouse/refresh'

/** How @fastify/jwt, and fast-jwt under it, sign and verify with the key of one master key. */
export function refreshTokenOptions({ id, key }: MasterKey, issuer: string) {
  return {
    secret: deriveKey(key, 'refresh tokens'),
    /** The first part of its tokens. */
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
      // Our own clock decides, with the other claims: see claims.ts.
      ignoreExpiration: true,
      ignoreNotBefore: true,
      cache: false,
    },
  }
}
