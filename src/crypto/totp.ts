import { Secret, TOTP } from 'otpauth'

/** Codes of authenticator apps (RFC 6238): SHA-1, 6 digits, 30 seconds. These are what every app can do. */

const SECRET_BYTES = 20
const PARAMETERS = { algorithm: 'SHA1', digits: 6, period: 30 } as const
/** Steps before and after that of the service's clock. */
const WINDOW = 1

/** 160 random bits, as RFC 4226 section 4 recommends. */
export function newTotpSecret(randomBytes: (size: number) => Buffer): Buffer {
  return randomBytes(SECRET_BYTES)
}

/** What an app is given: the secret in base32, and all of it as a URI, which apps read from a QR code. */
export function describeTotp(
  secret: Buffer,
  { issuer, email }: { issuer: string; email: string },
): { secret: string; uri: string } {
  const totp = new TOTP({ ...PARAMETERS, issuer, label: email, secret: toSecret(secret) })
  return { secret: totp.secret.base32, uri: totp.toString() }
}

/** The step of a code, in units of 30 s since 1970; null if it is of none in the window. */
export function matchTotp(secret: Buffer, code: string, now: number): number | null {
  // The library compares bytes, and throws for other characters that are six as well.
  if (!/^[0-9]{6}$/.test(code)) return null
  const given = { ...PARAMETERS, secret: toSecret(secret), token: code, timestamp: now, window: WINDOW }
  const delta = TOTP.validate(given)
  return delta === null ? null : stepAt(now) + delta
}

/** The last step whose code is right at a time. */
export function lastStepAt(now: number): number {
  return stepAt(now) + WINDOW
}

function stepAt(now: number): number {
  return TOTP.counter({ period: PARAMETERS.period, timestamp: now })
}

function toSecret(secret: Buffer): Secret {
  return new Secret({ buffer: new Uint8Array(secret).buffer })
}
