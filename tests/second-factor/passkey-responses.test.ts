import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { loadConfig } from '../../src/config/config.ts'
import { type NewPasskey, readAssertion, readRegistration } from '../../src/crypto/passkeys.ts'
import { createAuthenticator, type Falsified, type KeyKind, ORIGIN } from '../support/authenticator.ts'
import { MASTER_KEYS } from '../support/test-service.ts'

/**
 * Browsers' responses for passkeys (WebAuthn level 3). The reader must reject each falsified field. passkeys.test.ts
 * covers that the routes use the reader.
 */

const DASHBOARD = 'http://app.localhost:8080'
const { passkeys } = loadConfig({ MASTER_KEYS, DASHBOARD_ORIGINS: `${DASHBOARD},https://app.example.com` })
const [challenge, handle] = [randomBytes(32).toString('base64url'), randomBytes(64)]
const options = {
  challenge,
  rpId: 'localhost',
  rp: { id: 'localhost' },
  user: { id: handle.toString('base64url') },
}
const authenticators = {
  ES256: createAuthenticator(),
  EdDSA: createAuthenticator({ kind: 'EdDSA' }),
  RS256: createAuthenticator({ kind: 'RS256' }),
}

type Row = [what: string, falsified: Falsified]
type RowOfKey = [what: string, kind: KeyKind, falsified: Falsified]

const register = (falsified: Falsified, authenticator = authenticators.ES256) =>
  readRegistration(passkeys, { response: authenticator.create(options, falsified), challenge })

const use = (
  passkey: NewPasskey,
  falsified: Falsified,
  { by = authenticators.ES256, isDiscovered = true } = {},
) =>
  readAssertion(passkeys, {
    response: by.get(options, falsified),
    challenge,
    passkey: { ...passkey, handle },
    isDiscovered,
  })

async function registered(by = authenticators.ES256, falsified: Falsified = {}): Promise<NewPasskey> {
  const passkey = await register(falsified, by)
  if (!passkey) throw new Error('the registration was rejected')
  return passkey
}

/** False claims that an authenticator or a browser can make. */
const inBoth: Row[] = [
  ['a different challenge', { challenge: Buffer.alloc(32, 1).toString('base64url') }],
  ['an origin that begins like ours', { origin: `${ORIGIN}.evil.example` }],
  ['a dashboard outside the domain of the passkeys', { origin: 'https://app.example.com' }],
  ['a page in a frame of a different origin', { crossOrigin: true }],
  ['only a top origin', { topOrigin: 'https://evil.example' }],
  ['a different relying party', { rpId: 'evil.example' }],
  ['no verified user', { userVerified: false }],
  ['client data after a byte order mark', { clientBytes: (json) => `\ufeff${json}` }],
  ['authenticator data with a byte after it', { authenticatorData: (bytes) => added('01')(bytes) }],
]

const registrations: Row[] = [
  ...inBoth,
  ['an algorithm that was not offered', { algorithm: -38 }],
  ['an algorithm that does not fit the key', { algorithm: -257 }],
  ['an attestation of an unknown format', { format: 'made-up' }],
  ['an unrequested attestation', { format: 'packed', statement: new Map([['x5c', [Buffer.from('x')]]]) }],
  ['no authenticator data', { attestationObject: () => Buffer.from('a163666d74646e6f6e65', 'hex') }],
  ['CBOR of a thousand nested lists', { attestationObject: () => Buffer.alloc(1_000, 0x81) }],
  ['CBOR that promises four gigabytes', { attestationObject: () => Buffer.from('5affffffff00', 'hex') }],
]

test.for(registrations)(
  'a registration with %s is rejected (WebAuthn 7.1; ASVS 6.5.7)',
  async ([, falsified]) => {
    expect(await register(falsified)).toBeNull()
  },
)

const uses: Row[] = [
  ...inBoth,
  ['the user handle of no user', { userHandle: Buffer.alloc(64).toString('base64url') }],
  ['a different backup eligibility', { backupEligible: false }],
  ['a signature with one bit changed', { signature: (bytes) => bytes.fill(bytes.readUInt8(9) ^ 1, 9, 10) }],
]

test.for(uses)('a use of a passkey with %s is rejected (WebAuthn 7.2)', async ([, falsified]) => {
  const passkey = await registered()
  for (const isDiscovered of [true, false]) expect(await use(passkey, falsified, { isDiscovered })).toBeNull()
})

test('a passkey without user handle works only for a known user', async () => {
  const passkey = await registered()
  expect(await use(passkey, { userHandle: null })).toBeNull()
  const read = { signCount: 0, backupEligible: true }
  expect(await use(passkey, { userHandle: null }, { isDiscovered: false })).toEqual(read)
})

test("a passkey works on dashboards below the service's host", async () => {
  expect(await use(await registered(), { origin: DASHBOARD })).not.toBeNull()
})

test('a credential ID can have at most 1,023 bytes (WebAuthn 7.1, step 25)', async () => {
  const registerWith = (idBytes: number) => register({}, createAuthenticator({ idBytes }))
  expect(await registerWith(1023)).not.toBeNull()
  expect(await registerWith(1024)).toBeNull()
})

test("a registration whose ID differs from its key's ID is rejected", async () => {
  const response = authenticators.ES256.create(options)
  const other = Buffer.alloc(32, 7).toString('base64url')
  for (const ids of [{ id: other, rawId: other }, { rawId: other }])
    expect(await readRegistration(passkeys, { response: { ...response, ...ids }, challenge })).toBeNull()
})

const withBytes =
  (label: number, change: (bytes: Buffer) => Buffer): NonNullable<Falsified['key']> =>
  (key) => {
    const bytes = key.get(label)
    if (!Buffer.isBuffer(bytes)) throw new Error(`there are no bytes at ${label}`)
    return new Map(key).set(label, change(bytes))
  }
const withExponent = (hex: string) => withBytes(-2, () => Buffer.from(hex, 'hex'))
const without = (label: number) => (key: Map<number, unknown>) =>
  new Map([...key].filter(([one]) => one !== label))
const cut = (count: number) => (bytes: Buffer) => bytes.subarray(0, bytes.length - count)
const added = (text: string) => (bytes: Buffer) => Buffer.concat([bytes, Buffer.from(text, 'hex')])
const flipped = (bytes: Buffer) => Buffer.from(bytes.map((byte, at) => (at === 31 ? byte ^ 1 : byte)))
/** Sets the flag of extensions, and appends their data. */
const extended = (extensions: string) => (bytes: Buffer) => {
  const flags = bytes.readUInt8(32) | 0x80
  return added(extensions)(Buffer.from(bytes.map((byte, at) => (at === 32 ? flags : byte))))
}
// { "credProtect": 2 }, which some authenticators add without a request.
const PROTECT = `a16b${Buffer.from('credProtect').toString('hex')}02`

/** An odd number with this many bits. */
function randomModulus(bits: number): Buffer {
  const bytes = randomBytes(Math.ceil(bits / 8))
  const top = (bits - 1) % 8
  bytes.writeUInt8((bytes.readUInt8(0) & (2 ** top - 1)) | (2 ** top), 0)
  bytes.writeUInt8(bytes.readUInt8(bytes.length - 1) | 1, bytes.length - 1)
  return bytes
}

/** A member with such a key would be locked out (RFC 9052, section 7). */
const uselessKeys: RowOfKey[] = [
  ['CBOR with a byte after it', 'ES256', { attestationObject: added('00') }],
  [
    'authenticator data that ends in the modulus',
    'RS256',
    { key: (key) => new Map([...without(-1)(key), [-1, randomModulus(4096)]]), authenticatorData: cut(5) },
  ],
  ['extensions that are cut', 'ES256', { authenticatorData: extended('a1617841') }],
  ['extensions with a byte after them', 'ES256', { authenticatorData: extended(`${PROTECT}00`) }],
  ['an x of 33 bytes', 'ES256', { key: withBytes(-2, (x) => Buffer.concat([Buffer.alloc(1), x])) }],
  ['a y that is not on the curve', 'ES256', { key: withBytes(-3, flipped) }],
  ['no y', 'ES256', { key: without(-3) }],
  ['a different curve', 'ES256', { key: (key) => new Map(key).set(-1, 2) }],
  // RFC 8032, section 5.1.3: no x exists for this y, and the next y is not below the prime.
  ['an Ed25519 key that is not on the curve', 'EdDSA', { key: withBytes(-2, () => Buffer.alloc(32, 2)) }],
  ['an Ed25519 key out of range', 'EdDSA', { key: withBytes(-2, () => Buffer.alloc(32, 0xff)) }],
  ['the neutral point of Ed25519', 'EdDSA', { key: withBytes(-2, () => Buffer.alloc(32).fill(1, 0, 1)) }],
  ['an RSA key of 2047 bits', 'RS256', { key: withBytes(-1, () => randomModulus(2047)) }],
  ['an RSA key with an even modulus', 'RS256', { key: withBytes(-1, (n) => added('00')(n)) }],
  ['an RSA key of 16,392 bits', 'RS256', { key: withBytes(-1, () => randomModulus(16_392)) }],
  ['an RSA key with the exponent 1', 'RS256', { key: withExponent('01') }],
  ['an RSA key with an even exponent', 'RS256', { key: withExponent('0100') }],
  ['an RSA key with an exponent of 9 bytes', 'RS256', { key: withExponent('01'.repeat(9)) }],
]

test.for(uselessKeys)(
  'a key that cannot verify is rejected: %s (ASVS 11.6.1)',
  async ([, kind, falsified]) => {
    expect(await register(falsified, authenticators[kind])).toBeNull()
  },
)

test.for<RowOfKey>([
  ['ES256', 'ES256', {}],
  ['ES256 with an extension', 'ES256', { authenticatorData: extended(PROTECT) }],
  ['EdDSA', 'EdDSA', {}],
  ['RS256', 'RS256', {}],
])('a key of a supported kind is accepted and verifies: %s', async ([, kind, falsified]) => {
  const by = authenticators[kind]
  expect(await use(await registered(by, falsified), {}, { by })).not.toBeNull()
})
