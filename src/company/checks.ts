import { type Checks, type Person, passwordFault } from '../crypto/password-policy.ts'
import { invalidField } from '../errors.ts'
import { isEmail, normalizeEmail } from '../http/email-address.ts'
import { PLANS, ROLES } from './account.ts'

/** Checks names, emails, and passwords. Names and emails are returned in their stored form. */

const NAME = /^[^\p{Cc}\u2028\u2029]{1,100}$/u
/** Persian, Indic scripts, and emoji need these between other characters. */
const JOINERS = /[\u200c\u200d]/g
// Zero-width characters, soft hyphens, and direction marks can make two names look the same. A joiner is
// accepted after a visible character and before a character that is not a joiner.
const INVISIBLE =
  /(?![\u200c\u200d])\p{Cf}|(?<![^\s\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\u200c\u200d])/u

/** @throws Problem invalid_request */
export function checkEmail(text: string, field: 'email' | 'newEmail' = 'email'): string {
  const email = normalizeEmail(text)
  // Some mail servers decode an encoded word (RFC 2047) and then deliver to a different email.
  if (!isEmail(email) || email.includes('=?')) throw invalidField(field, 'must be an email address')
  if (email.endsWith('@service.invalid'))
    throw invalidField(field, 'must not end in @service.invalid, which is reserved for service accounts')
  return email
}

/** @throws Problem invalid_request */
export function checkName(field: 'name' | 'companyName', text: string): string {
  const name = text.normalize('NFC').trim()
  if (!NAME.test(name)) throw invalidField(field, 'must be one line of 1 to 100 characters')
  if (INVISIBLE.test(name))
    throw invalidField(
      field,
      'must not contain invisible characters (soft hyphens, direction marks, zero-width characters that join nothing)',
    )
  // Browsers leave joiners out of a URL. Emails break up names such as Booking.com (mail/letters.ts).
  if (name.replace(JOINERS, '').includes('://')) throw invalidField(field, 'must not contain ://')
  return name
}

const WORDS = ['gatehouse', ...ROLES, ...PLANS]

/** Slow: call it outside transactions. @throws Problem invalid_request, overloaded */
export async function checkPassword(
  field: 'password' | 'newPassword',
  password: string,
  person: Person,
  checks: Checks,
): Promise<void> {
  const fault = await passwordFault(password, person, { ...checks, words: WORDS })
  if (fault) throw invalidField(field, fault)
}

/** The name defaults to the email. Does not check the password, which is slow. @throws Problem invalid_request */
export function checkNewCompany(given: { companyName: string; name?: string | undefined; email: string }) {
  const email = checkEmail(given.email)
  const companyName = checkName('companyName', given.companyName)
  const name = given.name === undefined ? email : checkName('name', given.name)
  return { companyName, name, email }
}
