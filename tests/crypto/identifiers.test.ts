import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createOpaque } from '../../src/crypto/opaque.ts'
import { newId, realSystem } from '../../src/system.ts'
import { createClock, openTestService, times } from '../support/test-service.ts'

/** Random bytes that are all the same, and how many were asked for. */
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

describe('an id', () => {
  test('is a UUIDv7: the time, then random bits (RFC 9562, section 5.7)', () => {
    const now = Date.UTC(2026, 10, 20, 10, 15, 0, 123)
    for (const [value, rest] of [
      [0x00, '7000-8000-000000000000'],
      [0xff, '7fff-bfff-ffffffffffff'],
      [0xa5, '75a5-a5a5-a5a5a5a5a5a5'],
    ] as const) {
      const time = now.toString(16).padStart(12, '0')
      expect(newId({ now: () => now, ...constantBytes(value) })).toBe(
        `${time.slice(0, 8)}-${time.slice(8)}-${rest}`,
      )
    }
  })

  test('sorts by the time of its making, as text and so as a key', () => {
    const clock = createClock()
    const ids = times(1000, () => {
      clock.advance(0.001)
      return newId(clock)
    })
    expect([...ids].sort()).toEqual(ids)
  })

  test('is unlike every other of the same millisecond', () => {
    const ids = times(20_000, () => newId({ now: () => 0, randomBytes }))
    expect(new Set(ids).size).toBe(ids.length)
  })

  test('can be made until the year 10889', () => {
    const last = 2 ** 48 - 1
    expect(newId({ now: () => last, randomBytes })).toMatch(/^ffffffff-ffff-7/)
  })
})

describe('an opaque credential', () => {
  test('is 256 bits of the random source, and nothing else (ASVS 7.2.3, 11.5.1)', () => {
    const source = constantBytes(0xa5)
    expect(Buffer.from(createOpaque(undefined, source.randomBytes).generate(), 'base64url')).toEqual(
      Buffer.alloc(32, 0xa5),
    )
    expect(source.asked).toEqual([32])
  })

  test('differs each time in about half of its bits (ASVS 11.5.1)', () => {
    const made = times(2000, () =>
      Buffer.from(createOpaque(undefined, realSystem.randomBytes).generate(), 'base64url'),
    )
    expect(new Set(made.map((bytes) => bytes.toString('hex'))).size).toBe(made.length)
    // Each of the 256 bits is set in half of them; seven deviations either way are out of the question.
    for (let bit = 0; bit < 256; bit += 1) {
      const set = made.filter((bytes) => bytes.readUInt8(bit >> 3) & (1 << (bit & 7))).length
      expect(Math.abs(set - 1000)).toBeLessThan(7 * Math.sqrt(500))
    }
  })

  test('is looked up by its SHA-256', () => {
    const opaque = createOpaque(undefined, randomBytes)
    const credential = opaque.generate()
    expect(opaque.hash(credential)).toEqual(createHash('sha256').update(credential).digest())
  })

  test('names its cell, which is a part of it; that of another cell is unknown, and one without is older', () => {
    const [eu1, eu2, none] = [
      createOpaque('eu1', randomBytes),
      createOpaque('eu2', randomBytes),
      createOpaque(undefined, randomBytes),
    ]
    const [credential, older] = [eu1.generate('verify_'), none.generate('verify_')]
    expect(credential).toMatch(/^eu1\.verify_[\w-]{43}$/)
    expect(eu1.hash(credential, 'verify_')).toEqual(createHash('sha256').update(credential).digest())
    expect([eu2, none].map((other) => other.hash(credential, 'verify_'))).toEqual([null, null])
    expect(eu1.hash(credential.slice('eu1.'.length), 'verify_')).not.toEqual(eu1.hash(credential, 'verify_'))
    expect(eu1.hash(older, 'verify_')).toEqual(none.hash(older, 'verify_'))
    for (const kind of ['reset_', '']) expect(eu1.hash(credential, kind)).toBeNull()
  })

  test.each([
    ['nothing', ''],
    ['one character less', 'A'.repeat(42)],
    ['one character more', 'A'.repeat(44)],
    ['another alphabet', `${'A'.repeat(42)}+`],
    ['padding', `${'A'.repeat(42)}=`],
    ['a line break', `${'A'.repeat(43)}\n`],
    ['two lines', `${'A'.repeat(43)}\n${'A'.repeat(43)}`],
    ['letters of another script', 'А'.repeat(43)],
  ])('is not even looked up in another form: %s', (_, credential) => {
    expect(createOpaque(undefined, randomBytes).hash(credential)).toBeNull()
    expect(createOpaque('eu1', randomBytes).hash(credential)).toBeNull()
    expect(createOpaque('eu1', randomBytes).hash(`eu1.${credential}`)).toBeNull()
  })

  test('is stored only as its hash, as is the cookie that carries it (ASVS 6.5.2, 7.2.3)', async () => {
    const service = await openTestService()
    const cookie = await service.cookieOf(await service.addCompany())
    expect(Buffer.from(cookie, 'base64url')).toHaveLength(32)
    const [row] = await service.db.selectFrom('sessions').selectAll().execute()
    expect(row?.cookie_hash).toEqual(createHash('sha256').update(cookie).digest())
    expect(JSON.stringify(row)).not.toContain(cookie)
  })
})
