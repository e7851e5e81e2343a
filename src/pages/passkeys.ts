import {
  type AuthenticationResponseJSON,
  browserSupportsWebAuthn,
  browserSupportsWebAuthnAutofill,
  type RegistrationResponseJSON,
  startAuthentication,
  startRegistration,
  WebAuthnAbortService,
} from '@simplewebauthn/browser'
import { ApiError } from './api.ts'

/** Passkeys in the browser (WebAuthn), with error messages for people. */

type RequestOptions = Parameters<typeof startAuthentication>[0]['optionsJSON']
type CreationOptions = Parameters<typeof startRegistration>[0]['optionsJSON']

/** Whether the browser supports passkeys on this page. */
export const canUsePasskeys = browserSupportsWebAuthn

/** Whether the browser offers passkeys in the email field. */
export const canOfferPasskeys = browserSupportsWebAuthnAutofill

/** Creates a passkey. Null if the user cancels or the request times out. @throws ApiError */
export async function makePasskey(options: object): Promise<RegistrationResponseJSON | null> {
  return await startRegistration({ optionsJSON: options as CreationOptions }).catch(explain)
}

/** Opens the browser's passkey dialog. Null if the user cancels or the request times out. @throws ApiError */
export async function askForPasskey(options: object): Promise<AuthenticationResponseJSON | null> {
  return await startAuthentication({ optionsJSON: options as RequestOptions }).catch(explain)
}

/** Offers passkeys in the email field until the user chooses one. Null if the offer is stopped. @throws ApiError */
export async function offerPasskeys(options: object): Promise<AuthenticationResponseJSON | null> {
  const offer = { optionsJSON: options as RequestOptions, useBrowserAutofill: true }
  return await startAuthentication(offer).catch(explain)
}

/** Ends the browser's dialog or offer. */
export function stopAsking(): void {
  WebAuthnAbortService.cancelCeremony()
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
