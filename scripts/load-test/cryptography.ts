import { createHmac, generateKeyPairSync, sign, verify } from 'node:crypto'
import { verifySync } from '@node-rs/argon2'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { SAMPLE_EVENT } from '../kit/events.ts'

/** The cost of signatures and hashes without a service. */

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const claims = Buffer.alloc(300, 'c')
const es256 = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
const signature = sign('sha256', claims, es256)
const event = Buffer.from(JSON.stringify(SAMPLE_EVENT))
const hundredEvents = Buffer.concat(Array.from({ length: 100 }, () => event))
const phc = await (await createPasswordHasher()).hash('a password')
const hmac = (bytes: Buffer) => createHmac('sha256', 'a key').update(bytes).digest()

const WORKS = {
  'ES256 signature': () => sign('sha256', claims, es256),
  'ES256 verification': () => verify('sha256', claims, { ...es256, key: publicKey }, signature),
  'HMAC of a token': () => hmac(claims),
  'HMAC of an event': () => hmac(event),
  'HMAC of 100 events': () => hmac(hundredEvents),
  argon2id: () => verifySync(phc, 'a password'),
} satisfies Record<string, () => unknown>

export type Cryptography = keyof typeof WORKS

/** CPU time in milliseconds of doing it once. Blocks this thread. */
export function measureCryptography(work: Cryptography, durationMs: number): number {
  const endsAt = performance.now() + durationMs
  const before = process.cpuUsage()
  let done = 0
  do {
    WORKS[work]()
    done += 1
  } while (performance.now() < endsAt)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / done
}
