import { expect, test } from 'vitest'
import { findBrokenLimits, withRecovery } from '../../scripts/fault-test/run/report.ts'

/** What `npm run fault-test` reports of a service that was right, but slow or large. */

const FAULT = { name: 'fault', from: 10_000, to: 20_000, complaints: [] }

test.each([
  [1, 500],
  [2, 3_000],
  [3, null],
])('a service is back when each of %i ways to it has acknowledged a change', (ways, backMs) => {
  const moments: [at: number, way: number][] = [
    [9_900, 0],
    [20_500, 0],
    [23_000, 1],
    [26_000, 0],
  ]
  const writes = moments.map(([at, way]) => ({ at, way }))
  expect(withRecovery(FAULT, { writes, history: [] }, ways)).toMatchObject({ backMs, longestGapMs: 10_500 })
})

test('each limit that is broken is reported, and none that is kept', () => {
  const limitsAt = (backMs: number, livezFailures: number, mb: number, timeouts: string[]) => {
    const faults = [{ ...FAULT, backMs, longestGapMs: 500, unanswered: 1 }]
    return findBrokenLimits({ faults, watch: { livezFailures, peakMemoryBytes: mb * 2 ** 20 } }, timeouts)
  }
  expect(limitsAt(5_000, 0, 350, [])).toEqual([])
  expect(limitsAt(5_001, 1, 351, ['POST /any'])).toEqual([
    'fault: back after 5001 ms',
    '/livez did not answer 1 times',
    'not answered in time: POST /any',
    'a process took 351 MB',
  ])
})
