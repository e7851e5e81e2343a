import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import type { TokenPurpose } from '../database/schema.ts'
import type { System } from '../system.ts'

/** One-time tokens as they travel: 32 random bytes behind the name of their purpose. */

/** Seconds from the sending of the mail. */
export const LIFETIME_SECONDS: Record<TokenPurpose, number> = {
  verify: 24 * 3600,
  reset: 3600,
  invite: 72 * 3600,
}

export function generateToken(system: System, purpose: TokenPurpose): { token: string; hash: Buffer } {
  const secret = generateOpaque(system.randomBytes)
  const hash = hashOpaque(secret)
  if (!hash) throw new Error('an opaque credential has a hash')
  return { token: `${purpose}_${secret}`, hash }
}

/** The hash to look a token up by; null for a text that is no token of that purpose. */
export function hashToken(purpose: TokenPurpose, token: string): Buffer | null {
  const prefix = `${purpose}_`
  return token.startsWith(prefix) ? hashOpaque(token.slice(prefix.length)) : null
}
