import { createHmac, generateKeyPairSync, sign, verify } from 'node:crypto'
import { verifySync } from '@node-rs/argon2'
import { createPasswordHasher } from '../../../src/crypto/password.ts'
import { SAMPLE_EVENT } from '../operations/sample-event.ts'
import type { Work } from './cryptography.ts'

/** Runs in a process of its own: does one kind of work over and over, in one thread, and tells its CPU time. */

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const claims = Buffer.alloc(300, 'c')
const es256 = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
const signature = sign('sha256', claims, es256)
const event = Buffer.from(JSON.stringify(SAMPLE_EVENT))
const hundredEvents = Buffer.concat(Array.from({ length: 100 }, () => event))
const phc = await (await createPasswordHasher()).hash('a password')
const hmac = (bytes: Buffer) => createHmac('sha256', 'a key').update(bytes).digest()

const DO: Record<Work, () => unknown> = {
  'ES256 signature': () => sign('sha256', claims, es256),
  'ES256 verification': () => verify('sha256', claims, { ...es256, key: publicKey }, signature),
  'HMAC of a token': () => hmac(claims),
  'HMAC of an event': () => hmac(event),
  'HMAC of 100 events': () => hmac(hundredEvents),
  argon2id: () => verifySync(phc, 'a password'),
}

process.on('message', ({ work, durationMs }: { work: Work; durationMs: number }) => {
  const endsAt = performance.now() + durationMs
  const before = process.cpuUsage()
  let done = 0
  do {
    DO[work]()
    done += 1
  } while (performance.now() < endsAt)
  const { user, system } = process.cpuUsage(before)
  process.send?.((user + system) / 1000 / done)
})
process.on('disconnect', () => process.exit())
process.send?.('ready')
