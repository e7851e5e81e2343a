import { expect, test } from 'vitest'
import { createFairQueue, type Turn } from '../../src/edge/fair-queue.ts'
import { createCheapHasher, times } from '../support/test-service.ts'

/** By letter: `v` and `w` are of one IPv6 /48. */
const NETWORKS = new Map(
  Object.entries({
    ...{ a: '192.0.2.1', b: '192.0.2.2', c: '192.0.2.3', d: '192.0.2.4', e: '192.0.2.5' },
    ...{ v: '2001:db8:1:1::', w: '2001:db8:1:2::', x: '2001:db8:2:1::' },
  }),
)
const networkOf = (entry: string) => NETWORKS.get(entry.charAt(0)) ?? ''
const atMost = (max: number, maxPerWiderNetwork = max) => ({ max, maxPerWiderNetwork })
const ENOUGH = atMost(100)

test.for([
  ['takes from each network in turn', 'a1 a2 a3 b1 c1 c2', ENOUGH, '', 'a1 b1 c1 a2 c2 a3'],
  ['gives a /48 the turns of one network', 'v1 v2 w1 x1 a1', ENOUGH, '', 'v1 x1 a1 w1 v2'],
  ['refuses the newest entry of the largest', 'a1 a2 a3 a4 b1', atMost(4), 'a4', 'a1 b1 a2 a3'],
  ['refuses a newcomer when no other has more', 'a1 b1 c1 d1', atMost(3), 'd1', 'a1 b1 c1'],
  ['bounds the entries of a wider network', 'v1 v2 v3 w1 a1', atMost(100, 2), 'v3 v2', 'v1 a1 w1'],
] as const)('a queue %s (ASVS 15.2.2)', ([, arrivals, bounds, dropped, taken]) => {
  const queue = createFairQueue<string>(bounds)
  const add = (entry: string) => queue.add({ network: networkOf(entry) }, entry) ?? []
  const refused = arrivals.split(' ').flatMap(add)
  expect(refused.join(' ')).toBe(dropped)
  expect(times(taken.split(' ').length + 1, () => queue.take())).toEqual([...taken.split(' '), undefined])
})

test('a queue gives the devices of a network the turns of one', () => {
  const queue = createFairQueue<string>(ENOUGH)
  const network = '192.0.2.1'
  for (const entry of ['a1', 'a2', 'b1']) queue.add({ network, device: entry.charAt(0) }, entry)
  queue.add({ network, device: undefined }, 'c1')
  queue.add({ network: '192.0.2.2' }, 'other')
  expect(times(5, () => queue.take())).toEqual(['a1', 'other', 'b1', 'c1', 'a2'])
})

test('a queue predicts which entries it refuses', () => {
  const queue = createFairQueue<symbol>(atMost(4, 3))
  const refused = [...'aaaabcde'].map((letter) => {
    const [place, entry] = [{ network: networkOf(letter) }, Symbol(letter)]
    const isRefused = queue.refuses(place)
    expect(queue.add(place, entry) === entry).toBe(isRefused)
    return isRefused
  })
  expect(refused).toEqual([false, false, false, true, false, false, false, true])
})

test('a flood of sign-ins leaves half of the hashing to known networks (ASVS 15.2.2)', async () => {
  const hasher = await createCheapHasher(1, atMost(40, 10))
  const ended: string[] = []
  const sign = async (name: string, turn: Turn) => {
    await hasher.inTurn(turn).hash(name)
    ended.push(name)
  }
  const flood = times(80, (i) => sign('flood', { network: `192.0.2.${i % 8}`, isKnown: false }))
  const all = Promise.allSettled(flood)
  const known = times(5, (i) => sign('known', { network: `198.51.100.${i}`, isKnown: true }))
  await sign('new', { network: '203.0.113.1', isKnown: false })
  // Eight networks have their turn before it, and the known ones every other one.
  expect(ended.filter((name) => name === 'known')).toHaveLength(5)
  expect(ended.filter((name) => name === 'flood').length).toBeLessThanOrEqual(10)
  await Promise.all(known)
  expect((await all).filter(({ status }) => status === 'rejected')).toHaveLength(80 - 40)
})
