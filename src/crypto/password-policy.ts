import { createRequire } from 'node:module'

/** Which passwords can be chosen (ASVS 6.2): long enough, not too long, not common. No composition rules. */

const MIN_LENGTH = 8
export const MAX_LENGTH = 128

const require = createRequire(import.meta.url)
let common: Set<string> | undefined

/** Loaded on first use: the lists take several megabytes, and most processes never check a new password. */
function commonPasswords(): Set<string> {
  if (common) return common
  const { dictionary }: typeof import('@zxcvbn-ts/language-common') = require('@zxcvbn-ts/language-common')
  common = new Set(dictionary['passwords-common'].filter((word) => word.length >= MIN_LENGTH))
  return common
}

/** Why the person cannot choose the password, as the end of a sentence about it; null if the person can. */
export function passwordFault(
  password: string,
  person: { email: string; companyName: string },
): string | null {
  const length = lengthOf(password)
  if (length < MIN_LENGTH) return `must have at least ${MIN_LENGTH} characters`
  if (length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`
  const folded = fold(password)
  if (folded === fold(person.email) || folded === fold(person.companyName)) {
    return 'must not be the e-mail address or the company name'
  }
  return commonPasswords().has(folded)
    ? 'is on the list of common passwords; choose one that nobody would guess'
    : null
}

/** Whether a password is longer than every password that can be chosen. */
export function isTooLong(password: string): boolean {
  return lengthOf(password) > MAX_LENGTH
}

/** A password of 120 random bits. */
export function generatePassword(randomBytes: (size: number) => Buffer): string {
  return randomBytes(15).toString('base64url')
}

function lengthOf(password: string): number {
  return [...password.normalize('NFC')].length
}

function fold(text: string): string {
  return text.normalize('NFC').toLowerCase()
}
