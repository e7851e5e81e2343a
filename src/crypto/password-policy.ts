import { createRequire } from 'node:module'

const MIN_LENGTH = 8
export const MAX_LENGTH = 128

const require = createRequire(import.meta.url)
let common: Set<string> | undefined

/** Read when first needed: the lists weigh several megabytes, and most processes never see a new password. */
function commonPasswords(): Set<string> {
  if (common) return common
  const { dictionary }: typeof import('@zxcvbn-ts/language-common') = require('@zxcvbn-ts/language-common')
  common = new Set(dictionary['passwords-common'].filter((word) => word.length >= MIN_LENGTH))
  return common
}

/** What keeps a password from being chosen, for the person who chose it, or null. No composition rules. */
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

/** Whether a password that somebody signs in with is longer than any that can have been chosen. */
export function isTooLong(password: string): boolean {
  return lengthOf(password) > MAX_LENGTH
}

function lengthOf(password: string): number {
  return [...password.normalize('NFC')].length
}

function fold(text: string): string {
  return text.normalize('NFC').toLowerCase()
}
