import { expect, test } from 'vitest'
import { createMemoryStore } from '../../src/limits/memory.ts'
import { times } from '../support/test-service.ts'

/** Where `@fastify/rate-limit` counts. */

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

test('a refused use neither counts nor makes the window longer', () => {
  const { use, at } = openStore()
  expect([use('a'), use('a')]).toEqual([
    [1, LENGTH_MS],
    [2, LENGTH_MS],
  ])
  at(LENGTH_MS - 1)
  expect([use('a'), use('a')]).toEqual([
    [3, 1],
    [3, 1],
  ])
  at(LENGTH_MS)
  expect(use('a')).toEqual([1, LENGTH_MS])
})

test('of many keys those that were used least recently are forgotten (ASVS 15.1.3)', () => {
  const { use } = openStore()
  const uses = () => [use('first')[0], use('second')[0]]
  expect(uses()).toEqual([1, 1])
  times(49_998, (n) => use(`other ${n}`))
  expect(uses()).toEqual([2, 2])
  times(49_999, (n) => use(`another ${n}`))
  expect(use('second')[0]).toBe(3)
  expect(use('first')[0]).toBe(1)
})
