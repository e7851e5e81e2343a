import type { MemberIds } from '../company/account.ts'
import type { Digests, KeyedDigest } from '../crypto/digests.ts'
import { normalizeCode } from '../crypto/typed-code.ts'
import type { System } from '../system.ts'

const CODES = 10
/** Crockford's base32: without letters that look like digits, or like each other. */
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const LENGTH = 26
/** Of codes that earlier releases created. */
const EARLIER_LENGTH = 24

/** Ten codes of 130 random bits, in groups of four letters. */
export function newRecoveryCodes({ randomBytes }: Pick<System, 'randomBytes'>): string[] {
  return Array.from({ length: CODES }, () => {
    const letters = [...randomBytes(LENGTH)].map((byte) => ALPHABET[byte % ALPHABET.length]).join('')
    return (letters.match(/.{1,4}/g) ?? []).join('-')
  })
}

/** The digests by which a code is stored and found; none if the text cannot be a code. */
export function digestsOfCode(
  digests: Digests,
  { companyId, userId }: MemberIds,
  code: string,
): KeyedDigest[] {
  const letters = normalizeCode(code).toUpperCase().replaceAll('O', '0').replace(/[IL]/g, '1')
  const hasLength = letters.length === LENGTH || letters.length === EARLIER_LENGTH
  const isCode = hasLength && [...letters].every((letter) => ALPHABET.includes(letter))
  return isCode ? digests.of('recovery code', companyId, userId, letters) : []
}
