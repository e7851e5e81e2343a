import { createHash, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createOpaque } from '../../src/crypto/opaque.ts'
import { newId, realSystem } from '../../src/system.ts'

/** Returns constant bytes, and records how many were requested. */
function constantBytes(value: number) {
  const asked: number[] = []
  return {
    asked,
    randomBytes(size: number) {
      asked.push(size)
      return Buffer.alloc(size, value)
    },
  }
}

test('an ID is a UUIDv7, until the year 10889 (RFC 9562, section 5.7)', () => {
  for (const now of [Date.UTC(2026, 10, 20, 10, 15, 0, 123), 2 ** 48 - 1]) {
    for (const [value, rest] of [
      [0x00, '7000-8000-000000000000'],
      [0xff, '7fff-bfff-ffffffffffff'],
      [0xa5, '75a5-a5a5-a5a5a5a5a5a5'],
    ] as const) {
      const time = now.toString(16).padStart(12, '0')
      const id = `${time.slice(0, 8)}-${time.slice(8)}-${rest}`
      expect(newId({ now: () => now, ...constantBytes(value) })).toBe(id)
    }
  }
})

test('an opaque credential is 256 random bits, found by its SHA-256 (ASVS 7.2.3, 11.5.1)', () => {
  const source = constantBytes(0xa5)
  const opaque = createOpaque(undefined, source.randomBytes)
  const credential = opaque.generate()
  expect(Buffer.from(credential, 'base64url')).toEqual(Buffer.alloc(32, 0xa5))
  expect(source.asked).toEqual([32])
  expect(opaque.hash(credential)).toEqual(createHash('sha256').update(credential).digest())
})

test('random bytes never repeat, however many are requested (ASVS 11.5.2)', () => {
  // Many times the pool, in sizes that do not divide it.
  const sizes = Array.from({ length: 30_000 }, (_, index) => 12 + (index % 23))
  const drawn = new Set(sizes.map((size) => realSystem.randomBytes(size).toString('hex', 0, 12)))
  expect(drawn.size).toBe(sizes.length)
  expect([...drawn].filter((hex) => /0{16}/.test(hex))).toEqual([])
})

test('a credential names its cell, and other cells reject it', () => {
  const [eu1, eu2] = [createOpaque('eu1', randomBytes), createOpaque('eu2', randomBytes)]
  const none = createOpaque(undefined, randomBytes)
  const [credential, older] = [eu1.generate('verify_'), none.generate('verify_')]
  expect(credential).toMatch(/^eu1\.verify_[\w-]{43}$/)
  expect(eu1.hash(credential, 'verify_')).toEqual(createHash('sha256').update(credential).digest())
  expect([eu2, none].map((other) => other.hash(credential, 'verify_'))).toEqual([null, null])
  expect(eu1.hash(credential.slice('eu1.'.length), 'verify_')).not.toEqual(eu1.hash(credential, 'verify_'))
  // The hash of a credential without a tag does not include its kind.
  const untagged = createHash('sha256').update(older.slice('verify_'.length)).digest()
  expect([eu1, none].map((one) => one.hash(older, 'verify_'))).toEqual([untagged, untagged])
  for (const kind of ['reset_', '']) expect(eu1.hash(credential, kind)).toBeNull()
})

test.each([
  ['one character more', 'A'.repeat(44)],
  ['a different alphabet', `${'A'.repeat(42)}+`],
  ['a line break', `${'A'.repeat(43)}\n`],
])('a malformed credential is not looked up: %s', (_, credential) => {
  expect(createOpaque(undefined, randomBytes).hash(credential)).toBeNull()
  expect(createOpaque('eu1', randomBytes).hash(credential)).toBeNull()
  expect(createOpaque('eu1', randomBytes).hash(`eu1.${credential}`)).toBeNull()
})
