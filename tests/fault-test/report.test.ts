import { expect, test } from 'vitest'
import type { Operation } from '../../scripts/fault-test/checker/history.ts'
import { findBrokenLimits, withRecovery } from '../../scripts/fault-test/run/report.ts'

/** Reports of `npm run fault-test` about a service that was correct, but slow. */

const FAULT = { name: 'fault', from: 10_000, to: 20_000, complaints: [] }

function write(end: number, way: number): Operation {
  const seen = { outcome: 'ok', code: '', status: 200 } as const
  return { ...seen, client: 'one', what: 'POST /any', begin: end - 1, end, way, parts: [] }
}

test.each([
  [1, 500],
  [2, 3_000],
  [3, Number.POSITIVE_INFINITY],
])('recovery requires an acknowledged change on each of %i ways', (ways, backMs) => {
  // In no particular order, with an operation that changes nothing.
  const history = [write(26_000, 0), write(9_900, 0), write(23_000, 1), write(20_500, 0)]
  const read = { ...write(20_100, 1), what: 'GET /any' }
  expect(withRecovery(FAULT, [...history, read], ways)).toMatchObject({ backMs, longestGapMs: 10_500 })
})

test('limits are reported only when broken', () => {
  const disturbed = { ...FAULT, backMs: 5_000, longestGapMs: 500 }
  expect(findBrokenLimits([disturbed], [write(1, 0)])).toEqual([])
  const late = findBrokenLimits([{ ...disturbed, backMs: 5_001 }], [])
  expect(late).toEqual(['fault: back after 5001 ms'])
  const silent: Operation = { ...write(1, 0), outcome: 'unknown', status: 0, code: 'timeout' }
  expect(findBrokenLimits([], [silent])).toEqual([expect.stringContaining('POST /any: unknown timeout')])
})
