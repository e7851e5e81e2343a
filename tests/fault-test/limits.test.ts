import { availableParallelism } from 'node:os'
import { expect, test } from 'vitest'
import { findBrokenLimits } from '../../scripts/fault-test/run/limits.ts'

/** What `npm run fault-test` says of a service that was right, but slow or large. */

const FAULT = { name: 'fault', from: 0, to: 1_000, backMs: 5_000, unanswered: 1, longestGapMs: 500 }
const MOST = { connectionsAwaited: 600, hashesWaiting: 64 * availableParallelism() }
const WATCH = { slowestLivezMs: 1_000, livezFailures: 0, peakMemoryBytes: 350 * 2 ** 20, most: MOST }
const KEPT = { faults: [FAULT], watch: WATCH, workers: 1, unanswered: { what: [], ofCrowd: 0 } }

test('limits that are kept are not mentioned', () => expect(findBrokenLimits(KEPT)).toEqual([]))

test.each<[string, Partial<typeof KEPT> | { unanswered: { what: string[]; ofCrowd: number } }]>([
  ['fault: back after 5001 ms', { faults: [{ ...FAULT, backMs: 5_001 }] }],
  ['/livez answered after 1001 ms', { watch: { ...WATCH, slowestLivezMs: 1_001 } }],
  ['/livez did not answer 1 times', { watch: { ...WATCH, livezFailures: 1 } }],
  ['a process took 351 MB', { watch: { ...WATCH, peakMemoryBytes: 351 * 2 ** 20 } }],
  ['not answered in time: POST /any', { unanswered: { what: ['POST /any'], ofCrowd: 0 } }],
  ['2 that only wait were not answered in time', { unanswered: { what: [], ofCrowd: 2 } }],
  [
    `${MOST.hashesWaiting + 1} sign-ins waited for a hash`,
    { watch: { ...WATCH, most: { ...MOST, hashesWaiting: MOST.hashesWaiting + 1 } } },
  ],
])('a limit that is broken is told: %s', (sentence, seen) =>
  expect(findBrokenLimits({ ...KEPT, ...seen })).toEqual([sentence]),
)
