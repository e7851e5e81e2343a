import { randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { expectProblem } from '../http/problem.ts'
import { createAuthenticator, type Falsified, type KeyKind } from '../support/authenticator.ts'
import { must, ORIGIN, openFactorService } from '../support/second-factors.ts'

/** A passkey is taken only if its key can verify: who signs in by it would otherwise be locked out (RFC 9052, section 7). */

const service = await openFactorService()
const admin = await service.addCompany()
const { call, begin, complete } = service

const passkeys = '/auth/second-factors/passkeys'
async function newMember() {
  const person = await service.addUser(admin)
  const { accessToken: token } = await service.loginAs(person)
  return { ...person, token }
}
async function register(token: string, kind: KeyKind, falsified: Falsified) {
  const authenticator = createAuthenticator(ORIGIN, { kind })
  const { passkeyOptions } = await must(call(`${passkeys}/options`, { token }))
  const response = authenticator.create(passkeyOptions, falsified)
  const json = { response, name: 'Laptop', ...(await service.mailCodeIfNeeded({ token })) }
  return { authenticator, answer: await call(passkeys, { token, json }) }
}
/** Signs in by what `get` makes of the options. */
async function signIn(get: (asked: { challenge: string }) => unknown) {
  const { challenge, passkeyOptions } = await must(call('/auth/login/passkey/options', {}))
  return await call('/auth/login/passkey', { json: { challenge, response: get(passkeyOptions) } })
}

/** Changes the bytes of one label of a key. */
const withBytes =
  (label: number, change: (bytes: Buffer) => Buffer): NonNullable<Falsified['key']> =>
  (key) =>
    new Map(key).set(label, change(bytesAt(key, label)))
const bytesAt = (key: Map<number, unknown>, label: number) => {
  const bytes = key.get(label)
  if (!Buffer.isBuffer(bytes)) throw new Error(`there are no bytes at ${label}`)
  return bytes
}
const without = (label: number) => (key: Map<number, unknown>) =>
  new Map([...key].filter(([one]) => one !== label))
const cut = (count: number) => (bytes: Buffer) => bytes.subarray(0, bytes.length - count)
const added = (text: string) => (bytes: Buffer) => Buffer.concat([bytes, Buffer.from(text, 'hex')])
const flipped = (bytes: Buffer) => Buffer.from(bytes.map((byte, at) => (at === 31 ? byte ^ 1 : byte)))
/** Sets the flag of extensions, and appends what they say. */
const extended = (extensions: string) => (bytes: Buffer) => {
  const flags = bytes.readUInt8(32) | 0x80
  return added(extensions)(Buffer.from(bytes.map((byte, at) => (at === 32 ? flags : byte))))
}
// { "credProtect": 2 }, as some authenticators say unasked.
const PROTECT = `a16b${Buffer.from('credProtect').toString('hex')}02`

/** An odd number of so many bits. */
function randomModulus(bits: number): Buffer {
  const bytes = randomBytes(Math.ceil(bits / 8))
  const top = (bits - 1) % 8
  bytes.writeUInt8((bytes.readUInt8(0) & (2 ** top - 1)) | (2 ** top), 0)
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) | 1, bytes.length - 1)
  return bytes
}

const useless: [what: string, kind: KeyKind, falsified: Falsified][] = [
  ['CBOR that is cut by a byte', 'ES256', { attestationObject: cut(1) }],
  ['CBOR with a byte behind it', 'ES256', { attestationObject: added('00') }],
  ['CBOR that comes twice', 'ES256', { attestationObject: (bytes) => Buffer.concat([bytes, bytes]) }],
  ['authenticator data that is cut by five bytes', 'ES256', { authenticatorData: cut(5) }],
  ['such data with a longer RSA key', 'RS256', { authenticatorData: cut(1) }],
  [
    'such data that ends in the modulus',
    'RS256',
    { key: (key) => new Map([...without(-1)(key), [-1, randomModulus(4096)]]), authenticatorData: cut(5) },
  ],
  ['extensions that are cut', 'ES256', { authenticatorData: extended('a1617841') }],
  ['extensions with more behind them', 'ES256', { authenticatorData: extended(`${PROTECT}00`) }],
  ['an x of 16 bytes', 'ES256', { key: withBytes(-2, cut(16)) }],
  ['an x of 33 bytes', 'ES256', { key: withBytes(-2, (x) => Buffer.concat([Buffer.alloc(1), x])) }],
  ['a y that is not on the curve', 'ES256', { key: withBytes(-3, flipped) }],
  ['no y', 'ES256', { key: without(-3) }],
  ['coordinates that are text', 'ES256', { key: (key) => new Map(key).set(-2, 'x').set(-3, 'y') }],
  ['a type that is text', 'ES256', { key: (key) => new Map<number, unknown>(key).set(1, '2') }],
  ['another curve', 'ES256', { key: (key) => new Map(key).set(-1, 2) }],
  ['an Ed25519 key of 31 bytes', 'EdDSA', { key: withBytes(-2, cut(1)) }],
  // RFC 8032, section 5.1.3: there is no x for this y; and y is not below the prime.
  ['an Ed25519 key that is not on the curve', 'EdDSA', { key: withBytes(-2, () => Buffer.alloc(32, 2)) }],
  ['an Ed25519 key out of range', 'EdDSA', { key: withBytes(-2, () => Buffer.alloc(32, 0xff)) }],
  [
    'the neutral point of Ed25519',
    'EdDSA',
    { key: withBytes(-2, () => added('00'.repeat(31))(Buffer.from([1]))) },
  ],
  ['an RSA key of 512 bits', 'RS256', { key: withBytes(-1, () => randomModulus(512)) }],
  ['an RSA key of 2047 bits', 'RS256', { key: withBytes(-1, () => randomModulus(2047)) }],
  ['an RSA key with an even modulus', 'RS256', { key: withBytes(-1, (n) => added('00')(n)) }],
  ['an RSA key that is larger than any', 'RS256', { key: withBytes(-1, () => randomModulus(16_392)) }],
  ...['', '00', '01', '02', '0100', '01'.repeat(9)].map((exponent): (typeof useless)[number] => [
    `an RSA key with the exponent 0x${exponent}`,
    'RS256',
    { key: withBytes(-2, () => Buffer.from(exponent, 'hex')) },
  ]),
]

const someone = newMember()
test.for(useless)('a registration is refused that says: %s', async ([, kind, falsified]) => {
  const { token } = await someone
  const { answer } = await register(token, kind, falsified)
  expectProblem(answer, [400, 'invalid_request'])
  expect(answer.body.errors).toEqual([{ path: '/response', message: 'is not accepted' }])
  const { body } = await call('/auth/second-factors', { method: 'GET', token })
  expect([body.secondFactors, body.recoveryCodes]).toEqual([[], 0])
})

test.for<[what: string, kind: KeyKind, falsified: Falsified]>([
  ['ES256', 'ES256', {}],
  ['ES256, with what an extension says', 'ES256', { authenticatorData: extended(PROTECT) }],
  ['EdDSA', 'EdDSA', {}],
  ['RS256', 'RS256', {}],
])('a key is taken that is in order, and signs in: %s', async ([, kind, falsified]) => {
  const { token } = await newMember()
  const { authenticator, answer } = await register(token, kind, falsified)
  expect(answer.status).toBe(201)
  expect((await signIn((asked) => authenticator.get(asked))).status).toBe(200)
})

test('a key that was stored before and cannot verify is refused like a wrong signature', async () => {
  const person = await service.personWithPasskey(admin)
  const { authenticator } = person
  // No CBOR, a key that is cut, and an RSA key of which modulus and exponent are 1.
  for (const key of ['ff', 'a501020326', 'a4010303390100204101214101']) {
    await sql`update second_factors set public_key = ${Buffer.from(key, 'hex')} where factor_id = ${person.id}`.execute(
      service.db,
    )
    expectProblem(await signIn((asked) => authenticator.get(asked)), [401, 'invalid_second_factor'])
    const { challenge, passkeyOptions } = await begin(person)
    const response = authenticator.get(passkeyOptions ?? { challenge: '' })
    expectProblem(await complete({ challenge, method: 'passkey', response }), [401, 'invalid_second_factor'])
  }
})
