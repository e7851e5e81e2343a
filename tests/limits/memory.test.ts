import { expect, test } from 'vitest'
import { createMemoryStore } from '../../src/limits/memory.ts'
import { times } from '../support/test-service.ts'

/** `@fastify/rate-limit` counts in this store. */

const LENGTH_MS = 60_000

function openStore() {
  let time = 0
  const store = new (createMemoryStore({ now: () => time }))({})
  const use = (key: string) => {
    const told: unknown[] = []
    store.incr(key, (_error, answer) => told.push(answer?.current, answer?.ttl), LENGTH_MS, 2)
    return told
  }
  return { use, at: (ms: number) => (time = ms) }
}

test('a refused request neither counts nor extends the window', () => {
  const { use, at } = openStore()
  for (const hits of [1, 2]) expect(use('a')).toEqual([hits, LENGTH_MS])
  at(LENGTH_MS - 1)
  for (const hits of [3, 3]) expect(use('a')).toEqual([hits, 1])
  at(LENGTH_MS)
  expect(use('a')).toEqual([1, LENGTH_MS])
})

test('a window ends even if the clock is set back', () => {
  const { use, at } = openStore()
  use('a')
  at(-86_400_000)
  expect(use('a')).toEqual([2, LENGTH_MS])
  at(-86_400_000 + LENGTH_MS)
  expect(use('a')).toEqual([1, LENGTH_MS])
})

test('the store forgets the least recently used of 50,001 keys (ASVS 15.1.3)', () => {
  const { use } = openStore()
  use('first')
  times(49_999, (n) => use(`other ${n}`))
  expect(use('first')[0]).toBe(2)
  use('one too many')
  expect(use('first')[0]).toBe(3)
  expect(use('other 0')[0]).toBe(1)
})
