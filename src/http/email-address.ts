import { domainToASCII } from 'node:url'

/**
 * The one spelling of an email address. The local part is ASCII, so a look-alike in another script cannot pass for a different
 * account. A Unicode domain (IDN) is converted to its ASCII form (UTS #46) as browsers do: Chromium does it in the field,
 * others send what was typed.
 */

export const MAX_EMAIL_LENGTH = 254

/** Around `@` and dots. */
const ATOM = "[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
// Without the flag `u`, `i` folds nothing but ASCII to ASCII.
const EMAIL = new RegExp(`^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LABEL}$`, 'i')
/** Node stops reading a domain at `/`, `?`, `#`, and `\`, and decodes `%`. */
const CONVERTIBLE = /^[a-z0-9.\-\u0080-\u{10ffff}]+$/u
const ASCII = /^\p{ASCII}*$/u

export function normalizeEmail(email: string): string {
  return withAsciiDomain(email.normalize('NFC').toLowerCase())
}

/** The JSON Schema format `idn-email`, for an address as it was sent. */
export function isEmail(text: string): boolean {
  return text.length <= MAX_EMAIL_LENGTH && EMAIL.test(withAsciiDomain(text))
}

/** A domain that is ASCII stays as it is, since it may be stored in that form. So does one that cannot be converted. */
function withAsciiDomain(email: string): string {
  const [domain = ''] = email.split('@').slice(-1)
  if (ASCII.test(domain) || domain.length > MAX_EMAIL_LENGTH) return email
  const folded = domain.normalize('NFC').toLowerCase()
  const converted = CONVERTIBLE.test(folded) ? domainToASCII(folded) : ''
  return converted === '' ? email : email.slice(0, -domain.length) + converted
}
