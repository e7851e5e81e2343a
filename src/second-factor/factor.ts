import type { FactorKind } from '../database/schema.ts'

/** A member's factors, as the rows have them. */

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

/** A digest under a key that is derived from a master key. */
export interface KeyedDigest {
  keyId: string
  digest: Buffer
}

/** What a sign-in or a proof can be completed by. */
export const METHODS = ['passkey', 'totp', 'recovery_code'] as const
export type Method = (typeof METHODS)[number]

/** What a member sends. */
export type GivenProof =
  | { method: 'totp' | 'recovery_code'; code: string }
  | { method: 'passkey'; response: AssertionResponse }

/** AuthenticationResponseJSON (WebAuthn level 3, section 5.1.8), as far as it is read. */
export interface AssertionResponse {
  id: string
  rawId: string
  type: 'public-key'
  response: {
    clientDataJSON: string
    authenticatorData: string
    signature: string
    userHandle?: string | null
  }
  clientExtensionResults: object
}

/** RegistrationResponseJSON (WebAuthn level 3, section 5.1.8), as far as it is read. */
export interface RegistrationResponse {
  id: string
  rawId: string
  type: 'public-key'
  response: { clientDataJSON: string; attestationObject: string; transports?: string[] }
  clientExtensionResults: object
}

/** Values of `amr` (RFC 8176) for a factor: a passkey's key is in hardware unless it can be copied, and its user was verified. */
export function methodValuesOf(factor: { kind: FactorKind; backupEligible?: boolean | undefined }): string[] {
  if (factor.kind === 'totp') return ['otp']
  return [factor.backupEligible ? 'swk' : 'hwk', 'user']
}
