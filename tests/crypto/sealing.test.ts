import { hkdfSync, randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { createSealer, deriveKey } from '../../src/crypto/sealing.ts'
import { times } from '../support/test-service.ts'

const first = { id: 'first', key: randomBytes(32) }
const second = { id: 'second', key: randomBytes(32) }
const sealer = createSealer([first], randomBytes)
const secret = Buffer.from('the secret of company one, version three')
const CONTEXT = 'signing-secret:one:3'

/** The key's id, and the nonce, ciphertext and tag. */
function takeApart(sealed: string): [id: string, bytes: Buffer] {
  const [id = '', encoded = ''] = sealed.split('.')
  return [id, Buffer.from(encoded, 'base64url')]
}

const putTogether = (id: string, bytes: Buffer) => `${id}.${bytes.toString('base64url')}`

describe('a sealed value', () => {
  test.each([0, 32])('%d sealed bytes open unchanged', (size) => {
    const plaintext = randomBytes(size)
    expect(sealer.open(sealer.seal(plaintext, CONTEXT), CONTEXT)).toEqual(plaintext)
  })

  test('a sealed value contains no part of its plaintext', () => {
    const [, bytes] = takeApart(sealer.seal(secret, CONTEXT))
    for (let at = 0; at + 4 <= secret.length; at += 1) {
      expect(bytes.includes(secret.subarray(at, at + 4))).toBe(false)
    }
  })

  test('a sealed value with one flipped bit does not open (ASVS 11.3.2)', () => {
    const [id, bytes] = takeApart(sealer.seal(secret, CONTEXT))
    expect(bytes).toHaveLength(12 + secret.length + 16)
    for (let at = 0; at < bytes.length * 8; at += 1) {
      const changed = Buffer.from(bytes)
      changed.writeUInt8(changed.readUInt8(at >> 3) ^ (1 << (at & 7)), at >> 3)
      expect(() => sealer.open(putTogether(id, changed), CONTEXT)).toThrow()
    }
  })

  test('a shortened or extended sealed value does not open (ASVS 11.3.3)', () => {
    const [id, bytes] = takeApart(sealer.seal(secret, CONTEXT))
    for (let length = 0; length < bytes.length; length += 1) {
      expect(() => sealer.open(putTogether(id, bytes.subarray(0, length)), CONTEXT)).toThrow()
    }
    expect(() => sealer.open(putTogether(id, Buffer.concat([bytes, Buffer.alloc(1)])), CONTEXT)).toThrow()
  })

  test.each([
    ['a different company', 'signing-secret:two:3'],
    ['a different version', 'signing-secret:one:4'],
    ['a shorter name', CONTEXT.slice(0, -1)],
  ])('a sealed value does not open for %s (ASVS 11.3.3)', (_, context) => {
    const sealed = sealer.seal(secret, CONTEXT)
    expect(() => sealer.open(sealed, context)).toThrow()
  })

  test('a sealed value does not open under a different key', () => {
    const impostor = createSealer([{ ...second, id: first.id }], randomBytes)
    const sealed = sealer.seal(secret, CONTEXT)
    expect(() => impostor.open(sealed, CONTEXT)).toThrow()
  })

  test('opening names a missing master key', () => {
    const sealed = createSealer([second], randomBytes).seal(secret, CONTEXT)
    expect(() => sealer.open(sealed, CONTEXT)).toThrow(
      'a value is sealed under the master key "second", which MASTER_KEYS does not have',
    )
  })

  test('a value sealed under a previous master key opens (ASVS 11.2.2)', () => {
    const sealed = sealer.seal(secret, CONTEXT)
    const changed = createSealer([second, first], randomBytes)
    expect(changed.open(sealed, CONTEXT)).toEqual(secret)
    expect([sealer.isCurrent(sealed), changed.isCurrent(sealed)]).toEqual([true, false])
    expect(changed.isCurrent(changed.seal(secret, CONTEXT))).toBe(true)
  })

  test('a sealed value names its algorithm last (ASVS 11.2.2)', () => {
    const sealed = sealer.seal(secret, CONTEXT)
    expect(sealed).toMatch(/^first\.[\w-]+\.A256GCM$/)
    expect(() => sealer.open(sealed.replace('A256GCM', 'A256CCM'), CONTEXT)).toThrow(
      'a value is sealed by "A256CCM"',
    )
  })

  test('a sealed value without an algorithm opens, but is not current', () => {
    const earlier = putTogether(...takeApart(sealer.seal(secret, CONTEXT)))
    expect(earlier.split('.')).toHaveLength(2)
    expect(sealer.open(earlier, CONTEXT)).toEqual(secret)
    expect(sealer.isCurrent(earlier)).toBe(false)
  })

  test('a sealed value is current by its whole key ID', () => {
    const longer = createSealer([{ id: 'first2', key: second.key }], randomBytes)
    expect(sealer.isCurrent(longer.seal(secret, CONTEXT))).toBe(false)
    expect(longer.isCurrent(sealer.seal(secret, CONTEXT))).toBe(false)
  })

  test('sealed values never share a nonce (ASVS 11.3.4)', () => {
    const sealed = times(2_000, () => takeApart(sealer.seal(secret, CONTEXT))[1])
    expect(new Set(sealed.map((bytes) => bytes.toString('hex', 0, 12))).size).toBe(sealed.length)
    expect(new Set(sealed.map((bytes) => bytes.toString('hex', 12))).size).toBe(sealed.length)
  })
})

test('sealing requires a master key (ASVS 11.2.5)', () => {
  expect(() => createSealer([], randomBytes)).toThrow('needs a master key')
})

test('derived keys differ by purpose and master key (RFC 5869, section 3.2)', () => {
  const derived = [first, second].flatMap(({ key }) =>
    ['sealing', 'refresh tokens'].map((purpose) => deriveKey(key, purpose)),
  )
  expect(new Set(derived.map((key) => key.toString('hex'))).size).toBe(4)
  for (const key of derived) expect(key).toHaveLength(32)
  // What is stored and what is out in the field depend on these bytes.
  const expected = hkdfSync('sha256', first.key, '', 'gatehouse refresh tokens', 32)
  expect(deriveKey(first.key, 'refresh tokens')).toEqual(Buffer.from(expected))
})
