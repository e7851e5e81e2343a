import { availableParallelism } from 'node:os'
import { hash } from '@node-rs/argon2'
import { describe, expect, test } from 'vitest'
import { createPasswordHasher } from '../../src/crypto/password.ts'
import { createLimitedHasher } from '../../src/limits/hashing.ts'
import { times } from '../support/test-service.ts'

/** How passwords are hashed, and how many at a time. session/sign-in has how they are verified and renewed. */

const hasher = await createPasswordHasher()
const CHEAP = { memoryCost: 8, timeCost: 1, parallelism: 1 }

test('passwords are argon2id hashes of 19 MiB and 2 passes (ASVS 11.4.2)', async () => {
  const [first, second] = await Promise.all(times(2, () => hasher.hash('the password of twins')))
  for (const phc of [first, second]) {
    expect(phc).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/)
    expect(hasher.isOutdated(String(phc))).toBe(false)
  }
  expect(first).not.toBe(second)
})

test.for([
  ['less memory', { memoryCost: 12_288, timeCost: 2, parallelism: 1 }],
  ['fewer passes', { memoryCost: 19_456, timeCost: 1, parallelism: 1 }],
  ['more lanes', { memoryCost: 19_456, timeCost: 2, parallelism: 2 }],
  ['a different variant', { memoryCost: 19_456, timeCost: 2, parallelism: 1, algorithm: 1 }],
] as const)('a hash with %s is outdated (ASVS 11.4.2)', async ([, parameters]) => {
  expect(hasher.isOutdated(await hash('a password', parameters))).toBe(true)
})

describe('hashing', () => {
  const PASSWORD = 'correct horse battery'

  /** Starts all hashes; when this returns, none has ended. */
  function startAll(count: number, work: () => Promise<unknown>) {
    const results = Promise.allSettled(times(count, work))
    return { outcomes: async () => (await results).map(({ status }) => status), results }
  }

  /** A hasher whose calls are all of one client. */
  async function limited(concurrency?: number, max?: number) {
    const hasher = await createLimitedHasher(
      concurrency,
      max === undefined ? max : { max, maxPerWiderNetwork: max },
      CHEAP,
    )
    return {
      ...hasher.inTurn({ network: '192.0.2.1', isKnown: false }),
      get waiting() {
        return hasher.waiting
      },
    }
  }

  test('hashing runs on few cores, queues a few, and refuses the rest (ASVS 15.1.3)', async () => {
    const hasher = await limited(2, 3)
    const { results } = startAll(10, () => hasher.hash(PASSWORD))
    // Two of five run.
    expect(hasher.waiting).toBe(3)
    const settled = await results
    expect(settled.map(({ status }) => status)).toEqual([
      ...times(5, () => 'fulfilled'),
      ...times(5, () => 'rejected'),
    ])
    for (const result of settled) {
      if (result.status === 'rejected') expect(result.reason).toMatchObject({ code: 'overloaded' })
    }
    expect(hasher.waiting).toBe(0)
  })

  test('verifying and hashing share one queue, for missing accounts too (ASVS 6.3.8)', async () => {
    const hasher = await limited(1, 2)
    const phc = await hasher.hash(PASSWORD)
    const all = Promise.allSettled([
      hasher.verify(phc, PASSWORD),
      hasher.verify(undefined, PASSWORD),
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
  })

  test('hashing serves callers in the order of arrival', async () => {
    const hasher = await limited(1, 10)
    const ended: number[] = []
    await Promise.all(
      times(6, async (index) => {
        await hasher.hash(PASSWORD)
        ended.push(index)
        // While one runs, those after it wait.
        expect(hasher.waiting).toBe(Math.max(0, 4 - index))
      }),
    )
    expect(ended).toEqual([0, 1, 2, 3, 4, 5])
  })

  test('hashing recovers from overload and unreadable hashes (ASVS 16.5.2)', async () => {
    const hasher = await limited(1, 1)
    for (const phc of ['x', '$argon2id$v=19$m=19456,t=2,p=1$broken', '$2b$12$abcdefghijklmnopqrstuv']) {
      await expect(hasher.verify(phc, PASSWORD)).rejects.toThrow()
    }
    expect(await startAll(3, () => hasher.hash(PASSWORD)).outcomes()).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
    ])
    expect(await startAll(2, () => hasher.hash(PASSWORD)).outcomes()).toEqual(['fulfilled', 'fulfilled'])
    expect(hasher.waiting).toBe(0)
  })

  test('hashing uses one thread per core by default (ASVS 15.1.3)', async () => {
    const hasher = await limited()
    const { outcomes } = startAll(availableParallelism() + 1, () => hasher.hash(PASSWORD))
    expect(hasher.waiting).toBe(1)
    expect(new Set(await outcomes())).toEqual(new Set(['fulfilled']))
  })

  test('no password matches a missing hash (ASVS 6.3.8)', async () => {
    const hasher = await limited(1)
    for (const password of ['', PASSWORD, 'nobody'])
      expect(await hasher.verify(undefined, password)).toBe(false)
  })
})
