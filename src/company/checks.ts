import { type Checks, type Person, passwordFault } from '../crypto/password-policy.ts'
import { invalidField } from '../errors.ts'

/** Checks names, e-mails and passwords, and gives names and e-mails their stored form. */

/** No control characters and no line ends. */
const NAME = /^[^\p{Cc}\u2028\u2029]{1,100}$/u
/** How these make others join is needed by Persian, by Indic scripts and by emoji. */
const JOINERS = /[\u200c\u200d]/g
/**
 * Zero-width characters, soft hyphens and what changes the direction of the text: two names can look the same. A joiner
 * follows a visible character, and another character, not a joiner, follows it.
 */
const INVISIBLE =
  /(?![\u200c\u200d])\p{Cf}|(?<![^\s\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\u200c\u200d])/u
/** Mail programs turn these patterns into links. Names such as Booking.com are made harmless in the mail itself. */
const LINK = /:\/\/|www\.|\w\.\w+\//i

/** The parts around `@` and dots. Sign-in accepts every e-mail of this form. */
const ATOM = "[a-z0-9!#$%&'*+/=?^_`{|}~-]+"
const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?'
const EMAIL = new RegExp(`^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LABEL}$`)

/** The form in which e-mails are stored and compared. */
export function normalizeEmail(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

/** Returns an e-mail in its stored form. @throws Problem invalid_request */
export function checkEmail(text: string, field: 'email' | 'newEmail' = 'email'): string {
  const email = normalizeEmail(text)
  // Some mail servers decode an encoded word (RFC 2047) and then deliver to another e-mail.
  const isEmail = email.length <= 254 && EMAIL.test(email) && !email.includes('=?')
  if (!isEmail) throw invalidField(field, 'must be an e-mail address')
  return email
}

/** Returns a name in its stored form. @throws Problem invalid_request */
export function checkName(field: 'name' | 'companyName', text: string): string {
  const name = text.normalize('NFC').trim()
  if (!NAME.test(name)) throw invalidField(field, 'must be one line of 1 to 100 characters')
  if (INVISIBLE.test(name))
    throw invalidField(
      field,
      'must not contain invisible characters (soft hyphens, direction marks, zero-width ones that join nothing)',
    )
  // Browsers leave joiners out of a URL.
  if (LINK.test(name.replace(JOINERS, '')))
    throw invalidField(field, 'must not contain the address of a page')
  return name
}

/**
 * Not in a transaction: it takes its time, and can ask another service.
 * @throws Problem invalid_request if the policy refuses this password for this person, overloaded
 */
export async function checkPassword(
  field: 'password' | 'newPassword',
  password: string,
  person: Person,
  checks: Checks,
): Promise<void> {
  const fault = await passwordFault(password, person, checks)
  if (fault) throw invalidField(field, fault)
}

/**
 * Returns the names and the e-mail of a new company and its admin, in their stored form. The password is checked
 * apart, since that costs more.
 * @throws Problem invalid_request for the first value that is not accepted
 */
export function checkNewCompany(given: {
  companyName: string
  /** Default: the e-mail. */
  name?: string | undefined
  email: string
}): { companyName: string; name: string; email: string } {
  const email = checkEmail(given.email)
  const companyName = checkName('companyName', given.companyName)
  const name = given.name === undefined ? email : checkName('name', given.name)
  return { companyName, name, email }
}
