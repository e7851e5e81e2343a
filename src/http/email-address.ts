import { domainToASCII } from 'node:url'

/** One spelling per email address. An ASCII local part prevents look-alikes. A Unicode domain becomes ASCII (UTS #46). */

export const MAX_EMAIL_LENGTH = 254

const ATOM = "[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
// Without the flag `u`, `i` folds only ASCII.
const EMAIL = new RegExp(`^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LABEL}$`, 'i')
/** Node's `domainToASCII` stops at `/`, `?`, `#`, and `\`, and decodes `%`. */
const CONVERTIBLE = /^[a-z0-9.\-\u0080-\u{10ffff}]+$/u
const ASCII = /^\p{ASCII}*$/u

export function normalizeEmail(email: string): string {
  return withAsciiDomain(email.normalize('NFC').toLowerCase())
}

export function isEmail(text: string): boolean {
  return text.length <= MAX_EMAIL_LENGTH && EMAIL.test(withAsciiDomain(text))
}

/** Not all browsers convert domains in email fields. An ASCII domain stays unchanged, because it may be stored that way. */
function withAsciiDomain(email: string): string {
  const [domain = ''] = email.split('@').slice(-1)
  if (ASCII.test(domain) || domain.length > MAX_EMAIL_LENGTH) return email
  const folded = domain.normalize('NFC').toLowerCase()
  const converted = CONVERTIBLE.test(folded) ? domainToASCII(folded) : ''
  return converted === '' ? email : email.slice(0, -domain.length) + converted
}
