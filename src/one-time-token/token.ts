import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import type { TokenPurpose } from '../database/schema.ts'
import type { System } from '../system.ts'

/** The form of one-time tokens: the purpose, `_`, and 32 random bytes in base64url. */

/** From the sending of the mail. */
export const LIFETIME_SECONDS: Record<TokenPurpose, number> = {
  verify: 24 * 3600,
  reset: 3600,
  invite: 72 * 3600,
  confirm: 24 * 3600,
  undo: 72 * 3600,
}

export function generateToken(system: System, purpose: TokenPurpose): { token: string; hash: Buffer } {
  const secret = generateOpaque(system.randomBytes)
  const hash = hashOpaque(secret)
  if (!hash) throw new Error('an opaque credential has a hash')
  return { token: `${purpose}_${secret}`, hash }
}

export function hashToken(purpose: TokenPurpose, token: string): Buffer | null {
  const prefix = `${purpose}_`
  return token.startsWith(prefix) ? hashOpaque(token.slice(prefix.length)) : null
}
