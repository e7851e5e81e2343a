import type { MasterKey } from '../config.ts'
import { deriveKey } from '../crypto/sealing.ts'

/** Keys of refresh tokens (HS256), one for each master key: the first signs, all verify. */
export interface RefreshKeys {
  sign(claims: Record<string, unknown>): string
  /** The verifier of tokens with exactly this header part. */
  verifierOf(header: string): ((token: string) => unknown) | undefined
}

const REFRESH_AUDIENCE = 'gatehouse/refresh'

export function refreshTokenOptions({ id, key }: MasterKey, issuer: string) {
  return {
    secret: deriveKey(key, 'refresh tokens'),
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
