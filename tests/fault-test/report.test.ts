import { describe, expect, test } from 'vitest'
import { findBrokenLimits, withRecovery } from '../../scripts/fault-test/run/report.ts'

/** What `npm run fault-test` reports of a service that was right, but slow or large. */

const FAULT = { name: 'fault', from: 10_000, to: 20_000, complaints: [] }

describe('a service is back', () => {
  const writes = [
    { at: 9_900, way: 0 },
    { at: 20_500, way: 0 },
    { at: 23_000, way: 1 },
    { at: 26_000, way: 0 },
  ]

  test.each([
    [1, 500],
    [2, 3_000],
    [3, null],
  ])('after a change was acknowledged on each way to it: %i of them', (ways, backMs) => {
    expect(withRecovery(FAULT, { writes, history: [] }, ways)).toMatchObject({ backMs, longestGapMs: 10_500 })
  })
})

describe('a limit', () => {
  const disturbed = { ...FAULT, backMs: 5_000, longestGapMs: 500, unanswered: 1 }
  const kept = {
    faults: [disturbed],
    watch: { livezFailures: 0, peakMemoryBytes: 350 * 2 ** 20 },
  }

  test('that is kept is not mentioned', () => expect(findBrokenLimits(kept, [])).toEqual([]))

  test.each<[string, Partial<typeof kept>]>([
    ['fault: back after 5001 ms', { faults: [{ ...disturbed, backMs: 5_001 }] }],
    ['/livez did not answer 1 times', { watch: { ...kept.watch, livezFailures: 1 } }],
    ['a process took 351 MB', { watch: { ...kept.watch, peakMemoryBytes: 351 * 2 ** 20 } }],
  ])('that is broken is reported: %s', (sentence, seen) =>
    expect(findBrokenLimits({ ...kept, ...seen }, [])).toEqual([sentence]),
  )

  test('of time for an answer is reported with the request', () =>
    expect(findBrokenLimits(kept, ['POST /any'])).toEqual(['not answered in time: POST /any']))
})
