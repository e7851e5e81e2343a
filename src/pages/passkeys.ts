import { ApiError } from './api.ts'
import type { Body, PasskeyProof } from './routes.ts'

type Assertion = PasskeyProof['response']
type Attestation = Body<'POST /auth/second-factors/passkeys'>['response']

/** Passkeys in the browser (WebAuthn), with error messages for people. */

/** Whether the browser supports passkeys on this page, with options and responses as JSON (WebAuthn, level 3). */
export const canUsePasskeys = () =>
  typeof globalThis.PublicKeyCredential?.parseCreationOptionsFromJSON === 'function'

/** Whether the browser offers passkeys in the email field. */
export const canOfferPasskeys = async () =>
  canUsePasskeys() && (await PublicKeyCredential.isConditionalMediationAvailable?.()) === true

/** The browser's dialog or offer. A second one would fail while it is open. */
let asking: AbortController | undefined

function begin(): AbortSignal {
  stopAsking()
  asking = new AbortController()
  return asking.signal
}

export function stopAsking(): void {
  asking?.abort()
}

/** Creates a passkey. Null if the user cancels or the request times out. @throws ApiError */
export async function makePasskey(options: object): Promise<Attestation | null> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as PublicKeyCredentialCreationOptionsJSON,
  )
  return toJson(await navigator.credentials.create({ publicKey, signal: begin() }).catch(explain))
}

/**
 * Opens the browser's passkey dialog, or with `conditional`, offers passkeys in the email field. Null if the user cancels, the
 * request times out, or the offer is stopped. @throws ApiError
 */
export async function askForPasskey(
  options: object,
  mediation: 'optional' | 'conditional' = 'optional',
): Promise<Assertion | null> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as PublicKeyCredentialRequestOptionsJSON,
  )
  return toJson(await navigator.credentials.get({ publicKey, mediation, signal: begin() }).catch(explain))
}

/** The service checks its form. */
function toJson<Response>(credential: Credential | null): Response | null {
  return credential instanceof PublicKeyCredential ? (credential.toJSON() as Response) : null
}

/** For privacy, browsers report canceled and forbidden requests alike. */
const CANCELLED = ['AbortError', 'NotAllowedError']
const CANNOT =
  'This device has no screen lock. To use passkeys, set up a fingerprint, face recognition, or a PIN.'
const WORDS: Record<string, string> = {
  InvalidStateError: 'This device already has a passkey for your account.',
  ConstraintError: CANNOT,
  NotSupportedError: CANNOT,
  SecurityError: 'Passkeys only work at the address in our emails. Open this page at that address.',
}

function explain(error: unknown): null {
  const name = error instanceof Error ? error.name : ''
  if (CANCELLED.includes(name)) return null
  throw new ApiError('passkey', WORDS[name] ?? 'Your device or browser reported an error. Try again.')
}
