import { hkdfSync, randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSealer, deriveKey } from '../../src/crypto/sealing.ts'
import { times } from '../support/test-service.ts'

const first = { id: 'first', key: randomBytes(32) }
const second = { id: 'second', key: randomBytes(32) }
const sealer = createSealer([first], randomBytes)
const secret = Buffer.from('the secret of company one, version three')
const CONTEXT = 'signing-secret:one:3'

/** The key ID, and the bytes of nonce, ciphertext, and tag. */
function takeApart(sealed: string): [id: string, bytes: Buffer] {
  const [id = '', encoded = ''] = sealed.split('.')
  return [id, Buffer.from(encoded, 'base64url')]
}

const putTogether = (id: string, bytes: Buffer) => `${id}.${bytes.toString('base64url')}`

test('a changed sealed value does not open (ASVS 11.3.2, 11.3.3)', () => {
  const [id, bytes] = takeApart(sealer.seal(secret, CONTEXT))
  expect(bytes).toHaveLength(12 + secret.length + 16)
  expect(sealer.open(putTogether(id, bytes), CONTEXT)).toEqual(secret)
  const isRefused = (changed: Buffer) =>
    expect(() => sealer.open(putTogether(id, changed), CONTEXT)).toThrow()
  for (const at of bytes.keys()) {
    const changed = Buffer.from(bytes)
    changed.writeUInt8(changed.readUInt8(at) ^ (1 << (at & 7)), at)
    isRefused(changed)
    isRefused(bytes.subarray(0, at))
  }
  isRefused(Buffer.concat([bytes, Buffer.alloc(1)]))
})

test('a sealed value opens only in its context and under its key (ASVS 11.3.3)', () => {
  const sealed = sealer.seal(secret, CONTEXT)
  for (const context of ['signing-secret:two:3', 'signing-secret:one:4', CONTEXT.slice(0, -1)])
    expect(() => sealer.open(sealed, context)).toThrow()
  const impostor = createSealer([{ ...second, id: first.id }], randomBytes)
  expect(() => impostor.open(sealed, CONTEXT)).toThrow('it was altered, or a different key had that ID')
  expect(() => createSealer([second], randomBytes).open(sealed, CONTEXT)).toThrow(
    'a value is encrypted under the master key "first", which is not in MASTER_KEYS',
  )
})

test('a value under a previous master key opens, but is not current (ASVS 11.2.2)', () => {
  const sealed = sealer.seal(secret, CONTEXT)
  const changed = createSealer([second, first], randomBytes)
  expect(changed.open(sealed, CONTEXT)).toEqual(secret)
  expect([sealer.isCurrent(sealed), changed.isCurrent(sealed)]).toEqual([true, false])
  expect(changed.isCurrent(changed.seal(secret, CONTEXT))).toBe(true)
  // Keys are compared by their whole ID.
  const longer = createSealer([{ id: 'first2', key: second.key }], randomBytes)
  expect(sealer.isCurrent(longer.seal(secret, CONTEXT))).toBe(false)
})

test('a sealed value names its algorithm, but opens without the name (ASVS 11.2.2, 11.3.1)', () => {
  const sealed = sealer.seal(secret, CONTEXT)
  expect(sealed).toMatch(/^first\.[\w-]+\.A256GCM$/)
  const renamed = sealed.replace('A256GCM', 'A256CCM')
  expect(() => sealer.open(renamed, CONTEXT)).toThrow('a value is encrypted by "A256CCM"')
  const earlier = putTogether(...takeApart(sealed))
  expect(earlier.split('.')).toHaveLength(2)
  expect(sealer.open(earlier, CONTEXT)).toEqual(secret)
  expect(sealer.isCurrent(earlier)).toBe(false)
})

test('sealed values never share a nonce (ASVS 11.3.4)', () => {
  const sealed = times(100, () => takeApart(sealer.seal(secret, CONTEXT))[1])
  expect(new Set(sealed.map((bytes) => bytes.toString('hex', 0, 12))).size).toBe(sealed.length)
})

test('sealing requires a master key (ASVS 11.2.5)', () => {
  expect(() => createSealer([], randomBytes)).toThrow('needs a master key')
})

test('keys are derived from purpose and master key by HKDF (RFC 5869, section 3.2)', () => {
  // Stored values and issued tokens depend on these bytes.
  for (const purpose of ['sealing', 'refresh tokens']) {
    const expected = hkdfSync('sha256', first.key, '', `gatehouse ${purpose}`, 32)
    expect(deriveKey(first.key, purpose)).toEqual(Buffer.from(expected))
  }
})
