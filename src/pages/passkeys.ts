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

/** Passkeys, as the browser has them (WebAuthn). What goes wrong is said in words for people. */

type RequestOptions = Parameters<typeof startAuthentication>[0]['optionsJSON']
type CreationOptions = Parameters<typeof startRegistration>[0]['optionsJSON']

/** Whether the browser has passkeys, and the page is one that can use them. */
export const canUsePasskeys = browserSupportsWebAuthn

/** Whether it offers passkeys where an e-mail is typed. */
export const canOfferPasskeys = browserSupportsWebAuthnAutofill

/** Makes a passkey. Null if the user cancels that, or lets the time pass. @throws ApiError */
export async function makePasskey(options: object): Promise<RegistrationResponseJSON | null> {
  return await startRegistration({ optionsJSON: options as CreationOptions }).catch(explain)
}

/** Asks for a passkey in a dialog of the browser. Null if the user cancels that, or lets the time pass. @throws ApiError */
export async function askForPasskey(options: object): Promise<AuthenticationResponseJSON | null> {
  return await startAuthentication({ optionsJSON: options as RequestOptions }).catch(explain)
}

/** Offers passkeys where an e-mail is typed, until one is chosen. Null if that is stopped. @throws ApiError */
export async function offerPasskeys(options: object): Promise<AuthenticationResponseJSON | null> {
  const offer = { optionsJSON: options as RequestOptions, useBrowserAutofill: true }
  return await startAuthentication(offer).catch(explain)
}

/** Ends what the browser asks for or offers. */
export function stopAsking(): void {
  WebAuthnAbortService.cancelCeremony()
}

/** Browsers do not tell who cancels from what they do not allow, so that pages learn nothing of the device. */
const CANCELLED = ['AbortError', 'NotAllowedError']
const CANNOT = 'This device has no screen lock. It needs a fingerprint, your face or a PIN for passkeys.'
const WORDS: Record<string, string> = {
  InvalidStateError: 'This device already has a passkey for your account.',
  ConstraintError: CANNOT,
  NotSupportedError: CANNOT,
  SecurityError: 'Passkeys only work at the address in our emails. Open this page there.',
}

function explain(error: unknown): null {
  const name = error instanceof Error ? error.name : ''
  if (CANCELLED.includes(name)) return null
  throw new ApiError('passkey', WORDS[name] ?? 'Your device or browser reported an error. Try again.')
}
