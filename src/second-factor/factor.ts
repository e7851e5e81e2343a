import type { AssertionResponse } from '../crypto/passkeys.ts'
import type { FactorKind } from '../database/schema.ts'

interface Common {
  factorId: string
  name: string
  createdAt: Date
  lastUsedAt: Date | null
}

interface AuthenticatorApp extends Common {
  kind: 'totp'
  sealedSecret: string
}

export interface Passkey extends Common {
  kind: 'passkey'
  credentialId: Buffer
  /** In COSE form (RFC 9052, section 7). */
  publicKey: Buffer
  signCount: number
  /** The user handle of its owner. */
  handle: Buffer
  /** Whether it can be copied to other devices of its owner. It never changes. */
  backupEligible: boolean
  transports: string[]
}

export type Factor = AuthenticatorApp | Passkey

export const METHODS = ['passkey', 'totp', 'recovery_code'] as const
export type Method = (typeof METHODS)[number]

export type GivenProof =
  | { method: 'totp' | 'recovery_code'; code: string }
  | { method: 'passkey'; response: AssertionResponse }

/** Values of `amr` (RFC 8176). The key of a passkey is in hardware unless it can be copied; the device verified its user. */
export function methodValuesOf(factor: { kind: FactorKind; backupEligible?: boolean | undefined }): string[] {
  if (factor.kind === 'totp') return ['otp']
  return [factor.backupEligible ? 'swk' : 'hwk', 'user']
}
