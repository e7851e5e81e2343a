import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { createLimitedHasher } from '../../src/limits/admission.ts'
import { times } from '../support/test-service.ts'

/** Hashing and its queue. The tests in session/sign-in cover verification and renewal. */

const PASSWORD = 'correct horse battery'
const CHEAP = { memoryCost: 8, timeCost: 1, parallelism: 1 }

/** A hasher whose calls all come from one client. */
async function limited(concurrency?: number, maxWaiting?: number) {
  const hasher = await createLimitedHasher(concurrency, maxWaiting, CHEAP)
  return {
    ...hasher.admit({ network: '192.0.2.1', isKnown: false }),
    get waiting() {
      return hasher.waiting
    },
  }
}

test('passwords are hashed by argon2id with 19 MiB; other hashes are outdated (ASVS 11.4.2)', async () => {
  const hasher = await createPasswordHasher()
  const [first = '', second] = await Promise.all(times(2, () => hasher.hash('the password of twins')))
  expect(first).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/)
  expect(first).not.toBe(second)
  expect(hasher.isOutdated(first)).toBe(false)
  for (const [part, other] of [
    ['argon2id', 'argon2i'],
    ['m=19456', 'm=12288'],
    ['t=2', 't=1'],
    ['p=1', 'p=2'],
  ] as const)
    expect([part, hasher.isOutdated(first.replace(part, other))]).toEqual([part, true])
})

test('verifying and hashing share one queue, for missing accounts too (ASVS 6.3.8, 15.1.3)', async () => {
  const hasher = await limited(1, 8)
  const phc = await hasher.hash(PASSWORD)
  const all = Promise.allSettled([
    hasher.verify(phc, PASSWORD),
    // Missing accounts are compared with the hash of this password.
    hasher.verify(undefined, ''),
    hasher.hash(PASSWORD),
    hasher.verify(undefined, PASSWORD),
  ])
  expect(hasher.waiting).toBe(2)
  expect(await all).toEqual([
    { status: 'fulfilled', value: true },
    { status: 'fulfilled', value: false },
    { status: 'fulfilled', value: expect.any(String) },
    { status: 'rejected', reason: expect.objectContaining({ code: 'overloaded' }) },
  ])
  expect(hasher.waiting).toBe(0)
})

test('hashing uses one thread per core by default, even after unreadable hashes (ASVS 16.5.2)', async () => {
  const hasher = await limited()
  for (const phc of ['x', '$argon2id$v=19$m=19456,t=2,p=1$broken', '$2b$12$abcdefghijklmnopqrstuv'])
    await expect(hasher.verify(phc, PASSWORD)).rejects.toThrow()
  const hashes = times(availableParallelism() + 1, () => hasher.hash(PASSWORD))
  expect(hasher.waiting).toBe(1)
  expect(await Promise.all(hashes)).toHaveLength(hashes.length)
})
