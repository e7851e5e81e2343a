import { Secret, TOTP } from 'otpauth'

/** Codes of authenticator apps (RFC 6238), with the parameters that every app supports. */

const SECRET_BYTES = 20
const PARAMETERS = { algorithm: 'SHA1', digits: 6, period: 30 } as const
const WINDOW = 1

/** RFC 4226, section 4, recommends 160 bits. */
export function newTotpSecret(randomBytes: (size: number) => Buffer): Buffer {
  return randomBytes(SECRET_BYTES)
}

/** A colon separates issuer and account (Key URI format), so the issuer must not contain one. Emails never do. */
export function describeTotp(
  secret: Buffer,
  { issuer: companyName, email }: { issuer: string; email: string },
): { secret: string; uri: string } {
  const issuer = companyName.replace(/[\s:]+/g, ' ').trim() || 'gatehouse'
  const totp = new TOTP({ ...PARAMETERS, issuer, label: email, secret: toSecret(secret) })
  return { secret: totp.secret.base32, uri: totp.toString() }
}

/** The step of the code, in units of 30 s since 1970, or null. */
export function matchTotp(secret: Buffer, typed: string, now: number): number | null {
  const code = normalizeCode(typed)
  // The library throws for six characters with more than six bytes.
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

/** Japanese keyboards have the prolonged sound mark (30fc) where others have the hyphen. */
const IGNORED = /[\p{White_Space}\p{Dash}\p{Cf}\u30fc]/gu
const DIGIT = /\p{Nd}/u

/** People paste codes from word processors, and type them with full-width or Arabic digits. */
export function normalizeCode(text: string): string {
  return text
    .normalize('NFKC')
    .replace(IGNORED, '')
    .replace(/[^\p{ASCII}]/gu, (character) => (DIGIT.test(character) ? decimalOf(character) : character))
}

/** NFKC keeps Arabic digits. In Unicode, each script has its ten digits in a row, from zero. */
function decimalOf(digit: string): string {
  const point = digit.codePointAt(0) ?? 0
  let value = 0
  while (DIGIT.test(String.fromCodePoint(point - value - 1))) value += 1
  // Rows can be adjacent.
  return String(value % 10)
}
