import { describe, expect, test } from 'vitest'
import { createAdmission } from '../../src/limits/admission.ts'
import { createLimiter } from '../../src/limits/limiter.ts'

/** Work whose ends the test decides. */
function startWork(count: number, run: (work: () => Promise<number>) => Promise<number>) {
  const begun: number[] = []
  const ends = Array.from({ length: count }, () => Promise.withResolvers<number>())
  const results = ends.map(({ promise }, index) =>
    run(() => {
      begun.push(index)
      return promise
    }),
  )
  return { begun, ends, settled: Promise.allSettled(results) }
}

describe('a limiter (ASVS 15.1.3, 15.2.2)', () => {
  test('runs as much as it has places for, lets the next wait in order and refuses the rest', async () => {
    const limiter = createLimiter({ concurrency: 2, maxWaiting: 2 })
    const { begun, ends, settled } = startWork(5, limiter.run)
    expect([begun, limiter.free]).toEqual([[0, 1], 0])
    ends[1]?.resolve(1)
    await limiter.ended('any')
    expect([begun, limiter.free]).toEqual([[0, 1, 2], 0])
    for (const { resolve } of ends) resolve(0)
    await limiter.ended('all')
    expect([begun, limiter.free]).toEqual([[0, 1, 2, 3], 2])
    expect((await settled).at(-1)).toEqual({
      status: 'rejected',
      reason: expect.objectContaining({ code: 'overloaded' }),
    })
  })

  test('gives the place of failed work to the next', async () => {
    const limiter = createLimiter({ concurrency: 1, maxWaiting: 1 })
    const { begun, ends, settled } = startWork(2, limiter.run)
    ends[0]?.reject(new Error('failed'))
    ends[1]?.resolve(1)
    expect((await settled).map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect([begun, limiter.free]).toEqual([[0, 1], 1])
  })

  test('fails all that waits when there is an outage, and goes on afterwards', async () => {
    const limiter = createLimiter({ concurrency: 1, maxWaiting: 3, isOutage: () => true })
    const { begun, ends, settled } = startWork(3, limiter.run)
    const outage = new Error('outage')
    ends[0]?.reject(outage)
    expect(await settled).toEqual(Array(3).fill({ status: 'rejected', reason: outage }))
    expect([begun, limiter.free]).toEqual([[0], 1])
    expect(await limiter.run(async () => 4)).toBe(4)
  })
})

test('an admission fails all that waits when there is an outage, and goes on afterwards (ASVS 16.5.2)', async () => {
  const bounds = { max: 3, maxPerWiderNetwork: 3 }
  const admission = createAdmission({ places: 1, bounds, refusal: 'Too many.', isOutage: () => true })
  const run = (work: () => Promise<number>) => admission.run({ network: '192.0.2.1', isKnown: false }, work)
  const { begun, ends, settled } = startWork(3, run)
  const outage = new Error('outage')
  ends[0]?.reject(outage)
  expect(await settled).toEqual(Array(3).fill({ status: 'rejected', reason: outage }))
  expect([begun, admission.waiting]).toEqual([[0], 0])
  expect(await run(async () => 4)).toBe(4)
})
