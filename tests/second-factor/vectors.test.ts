import { expect, test } from 'vitest'
import { createDigests } from '../../src/crypto/digests.ts'
import { describeTotp, matchTotp, newTotpSecret, normalizeCode } from '../../src/crypto/totp.ts'
import { digestsOfCode, newRecoveryCodes } from '../../src/second-factor/own-factors.ts'
import { realSystem } from '../../src/system.ts'
import { times } from '../support/test-service.ts'

const SECRET = Buffer.from('12345678901234567890')

/** RFC 6238, appendix B, SHA-1: times in seconds, and codes with eight digits. Apps show the last six. */
const totp: [seconds: number, code: string][] = [
  [59, '94287082'],
  [1111111109, '07081804'],
  [1111111111, '14050471'],
  [20000000000, '65353130'],
]
test('authenticator codes match the vectors of RFC 6238 (and 4226), with six digits', () => {
  for (const [seconds, code] of totp)
    expect(matchTotp(SECRET, code.slice(2), seconds * 1000)).toBe(Math.floor(seconds / 30))
  for (const code of ['75522', '7552240', '75522x', '', '0x75522', '-75522', '75522.4'])
    expect([code, matchTotp(SECRET, code, 0)]).toEqual([code, null])
})

test("an authenticator app's secret has 160 bits, in a URI", () => {
  const secret = newTotpSecret(realSystem.randomBytes)
  expect(secret).toHaveLength(20)
  const { secret: text, uri } = describeTotp(secret, { issuer: 'A & B: Ltd', email: 'a+b@x.example' })
  expect(text).toMatch(/^[A-Z2-7]{32}$/)
  const { protocol, host, pathname, searchParams } = new URL(uri)
  expect([protocol, host]).toEqual(['otpauth:', 'totp'])
  expect(decodeURIComponent(pathname)).toContain('a+b@x.example')
  expect(Object.fromEntries(searchParams)).toEqual({
    issuer: 'A & B Ltd',
    secret: text,
    algorithm: 'SHA1',
    digits: '6',
    period: '30',
  })
})

// A label has an issuer, one colon, and an account. Apps split it at the first colon, and some refuse a second one.
test("an authenticator app's label has one colon", () => {
  const labelFor = (issuer: string) =>
    decodeURIComponent(new URL(describeTotp(SECRET, { issuer, email: 'ada@acme.example' }).uri).pathname)
  expect(labelFor('Acme:Risk :: EU')).toBe('/Acme Risk EU:ada@acme.example')
  expect(labelFor(' : ')).toBe('/gatehouse:ada@acme.example')
})

test.for([
  ['spaces around and in it', ' 75\u00a05\u3000224\u202f\t'],
  ['a hyphen, and the dashes of word processors', '755-2–2—4'],
  ['a hyphen that does not break, a soft one, and a minus', '7\u20115\u00ad5\u2212224'],
  ['a full-width hyphen, and the one of Japanese keyboards', '755－224ー'],
  ['a zero-width space and a direction mark', '\u200e755\u200b224'],
] as const)('a typed code with %s is normalized', ([, typed]) => {
  expect(normalizeCode(typed)).toBe('755224')
  expect(matchTotp(SECRET, typed, 0)).toBe(0)
  expect(normalizeCode(`AbCd${typed}`)).toBe('AbCd755224')
})

test('a typed code with decimal digits of any script is normalized', () => {
  const rows = times(0x2000, (row) => String.fromCodePoint(...times(16, (column) => row * 16 + column)))
  const digits = rows.join('').match(/\p{Nd}/gu) ?? []
  expect(digits.length).toBeGreaterThan(600)
  expect(normalizeCode(digits.join(''))).toBe('0123456789'.repeat(digits.length / 10))
})

const digests = createDigests([{ id: 'k', key: Buffer.alloc(32, 1) }])
const member = { companyId: 'c', userId: 'u' }
const digestOf = (code: string, of = member) => digestsOfCode(digests, of, code)[0]?.digest.toString('hex')

test('recovery codes match in any spelling, for one member only', () => {
  const [code = ''] = newRecoveryCodes({ randomBytes: (size) => Buffer.from([...Array(size).keys()]) })
  expect(code).toBe('0123-4567-89AB-CDEF-GHJK-MNPQ-RS')
  const same = [
    code,
    code.toLowerCase(),
    code.replaceAll('-', ''),
    code.replaceAll('0', 'o').replaceAll('1', 'l'),
    code.replaceAll('1', 'i'),
    code.replaceAll('-', '\u00a0\u2014\u00a0'),
    code.replace(/[0-9A-Z]/g, (letter) => String.fromCodePoint(letter.charCodeAt(0) + 0xfee0)),
  ]
  expect(new Set(same.map((one) => digestOf(one))).size).toBe(1)
  expect(digestOf(code)).toMatch(/^[0-9a-f]{64}$/)
  expect(digestOf(code, { companyId: 'c', userId: 'v' })).not.toBe(digestOf(code))
  expect(digestOf(code, { companyId: 'd', userId: 'u' })).not.toBe(digestOf(code))
  for (const other of ['', '1040', `${code}0`, code.replace('1', 'U'), '1'.repeat(23), '1'.repeat(25)])
    expect(digestOf(other)).toBeUndefined()
})
