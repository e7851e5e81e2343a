import { Secret, TOTP } from 'otpauth'

/** Codes of authenticator apps (RFC 6238): SHA-1, 6 digits, 30 seconds, which every app supports. */

const SECRET_BYTES = 20
const PARAMETERS = { algorithm: 'SHA1', digits: 6, period: 30 } as const
const WINDOW = 1

/** RFC 4226, section 4, recommends 160 bits. */
export function newTotpSecret(randomBytes: (size: number) => Buffer): Buffer {
  return randomBytes(SECRET_BYTES)
}

/** A colon separates issuer and account in the label, so neither contains one (Key URI format). An email never does. */
export function describeTotp(
  secret: Buffer,
  { issuer: companyName, email }: { issuer: string; email: string },
): { secret: string; uri: string } {
  const issuer = companyName.replace(/[\s:]+/g, ' ').trim() || 'gatehouse'
  const totp = new TOTP({ ...PARAMETERS, issuer, label: email, secret: toSecret(secret) })
  return { secret: totp.secret.base32, uri: totp.toString() }
}

/** The step of a code, in units of 30 s since 1970; null if no step of the window has it. */
export function matchTotp(secret: Buffer, typed: string, now: number): number | null {
  const code = normalizeCode(typed)
  // The library throws for six characters that are more than six bytes.
  if (!/^[0-9]{6}$/.test(code)) return null
  const given = { ...PARAMETERS, secret: toSecret(secret), token: code, timestamp: now, window: WINDOW }
  const delta = TOTP.validate(given)
  return delta === null ? null : stepAt(now) + delta
}

export function lastStepAt(now: number): number {
  return stepAt(now) + WINDOW
}

function stepAt(now: number): number {
  return TOTP.counter({ period: PARAMETERS.period, timestamp: now })
}

function toSecret(secret: Buffer): Secret {
  return new Secret({ buffer: new Uint8Array(secret).buffer })
}

/** Codes as people type and paste them: from a word processor, with a keyboard for full-width or Arabic digits. */

/** Spaces, dashes, and format characters. A Japanese keyboard has the prolonged sound mark where others have the hyphen. */
const IGNORED = /[\p{White_Space}\p{Dash}\p{Cf}\u30fc]/gu
const DIGIT = /\p{Nd}/u

/** The plain form of a code. Every code passes through here before it is checked. */
export function normalizeCode(text: string): string {
  return text
    .normalize('NFKC')
    .replace(IGNORED, '')
    .replace(/[^\p{ASCII}]/gu, (character) => (DIGIT.test(character) ? decimalOf(character) : character))
}

/** NFKC leaves digits such as the Arabic ones. In Unicode, the digits of a script are a row of ten that begins with the zero. */
function decimalOf(digit: string): string {
  const point = digit.codePointAt(0) ?? 0
  let value = 0
  while (DIGIT.test(String.fromCodePoint(point - value - 1))) value += 1
  // Rows can touch.
  return String(value % 10)
}
