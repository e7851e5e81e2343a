import { describe, expect, test } from 'vitest'
import { createFairQueue, type Turn } from '../../src/edge/fair-queue.ts'
import { createCheapHasher, times } from '../support/test-service.ts'

const queueOf = (
  entries: [network: string, entry: string][],
  bounds = { max: 100, maxPerWiderNetwork: 100 },
) => {
  const queue = createFairQueue<string>(bounds)
  const dropped = entries.map(([network, entry]) => queue.add({ network }, entry))
  const taken: string[] = []
  for (let entry = queue.take(); entry !== undefined; entry = queue.take()) taken.push(entry)
  return { dropped: dropped.filter((entry) => entry !== undefined), taken }
}

describe('a fair queue (ASVS 15.2.2)', () => {
  test('a queue takes from each network in turn, in order of arrival', () => {
    const { taken } = queueOf([
      ['192.0.2.1', 'a1'],
      ['192.0.2.1', 'a2'],
      ['192.0.2.1', 'a3'],
      ['192.0.2.2', 'b1'],
      ['192.0.2.3', 'c1'],
      ['192.0.2.3', 'c2'],
    ])
    expect(taken).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
  })

  test('a queue gives a /48 the turns of one network', () => {
    const { taken } = queueOf([
      ['2001:db8:1:1::', 'a1'],
      ['2001:db8:1:1::', 'a2'],
      ['2001:db8:1:2::', 'b1'],
      ['2001:db8:2:1::', 'c1'],
      ['192.0.2.1', 'd1'],
    ])
    expect(taken).toEqual(['a1', 'c1', 'd1', 'b1', 'a2'])
  })

  test('a full queue refuses the newest entry of the largest wider network', () => {
    const flood = times(4, (i): [string, string] => ['192.0.2.1', `flood ${i}`])
    const { dropped, taken } = queueOf([...flood, ['192.0.2.2', 'honest']], { max: 4, maxPerWiderNetwork: 4 })
    expect(dropped).toEqual(['flood 3'])
    expect(taken).toEqual(['flood 0', 'honest', 'flood 1', 'flood 2'])
  })

  test('a full queue refuses a newcomer when no wider network has more', () => {
    const one = times(3, (i): [string, string] => [`192.0.2.${i}`, `entry ${i}`])
    expect(queueOf([...one, ['192.0.2.9', 'late']], { max: 3, maxPerWiderNetwork: 3 }).dropped).toEqual([
      'late',
    ])
  })

  test('a queue bounds the entries of each wider network', () => {
    const entries: [string, string][] = [
      ['2001:db8:1:1::', 'a1'],
      ['2001:db8:1:1::', 'a2'],
      ['2001:db8:1:1::', 'a3'],
      ['2001:db8:1:2::', 'b1'],
      ['192.0.2.1', 'c1'],
    ]
    const { dropped, taken } = queueOf(entries, { max: 100, maxPerWiderNetwork: 2 })
    expect(dropped).toEqual(['a3', 'a2'])
    expect(taken).toEqual(['a1', 'c1', 'b1'])
  })

  test('a queue gives the devices of a network the turns of one', () => {
    const queue = createFairQueue<string>({ max: 100, maxPerWiderNetwork: 100 })
    for (const [device, entry] of [
      ['d1', 'a1'],
      ['d1', 'a2'],
      ['d2', 'b1'],
      [undefined, 'c1'],
    ] as const)
      queue.add({ network: '192.0.2.1', device }, entry)
    queue.add({ network: '192.0.2.2' }, 'other')
    expect(times(5, () => queue.take())).toEqual(['a1', 'other', 'b1', 'c1', 'a2'])
  })

  test('a queue predicts which entries it refuses', () => {
    const bounds = { max: 4, maxPerWiderNetwork: 3 }
    const queue = createFairQueue<number>(bounds)
    for (const [network, expected] of [
      ['192.0.2.1', false],
      ['192.0.2.1', false],
      ['192.0.2.1', false],
      ['192.0.2.1', true],
      ['192.0.2.2', false],
      ['192.0.2.3', false],
      ['192.0.2.4', false],
      ['192.0.2.5', true],
    ] as const) {
      expect(queue.refuses({ network })).toBe(expected)
      const entry = Math.random()
      expect(queue.add({ network }, entry) === entry).toBe(expected)
    }
  })
})

describe('a flood of sign-ins from many networks (ASVS 15.2.2)', () => {
  test('a flood of sign-ins leaves half of the hashing to known networks', async () => {
    const hasher = await createCheapHasher(1, { max: 40, maxPerWiderNetwork: 10 })
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
})
