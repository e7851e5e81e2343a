import { expect, test } from 'vitest'
import { withRecovery } from '../../scripts/fault-test/run/recovery.ts'
import { times } from '../support/test-service.ts'

/** How `npm run fault-test` counts the time that a service takes to be back. */

const FAULT = { name: 'fault', from: 10_000, undoneAt: 20_000, to: 21_000, complaints: [] }
const writes = [
  { at: 9_900, way: 0 },
  { at: 20_500, way: 0 },
  { at: 23_000, way: 1 },
  { at: 26_000, way: 0 },
]
const backOf = (seen: Partial<Parameters<typeof withRecovery>[1]>, faults = [FAULT]) =>
  withRecovery(faults, { writes, ways: 2, unanswered: [], databaseWrites: [], ...seen }).map(
    ({ backMs }) => backMs,
  )

test('a service is back when a change was acknowledged on each way to it', () => {
  expect(backOf({ ways: 1 })).toEqual([500])
  expect(backOf({})).toEqual([3_000])
  expect(backOf({ ways: 3 })).toEqual([null])
  expect(backOf({ ways: 3, databaseWrites: [9_000, 10_000] })).toEqual([null])
})

test('a fault that another overlaps is over with it', () => {
  const other = { ...FAULT, from: 19_000, undoneAt: 20_400 }
  expect(backOf({ ways: 1 }, [FAULT, other])).toEqual([100, 100])
})

test('a fault that begins as soon as another ends is one with it', () => {
  const other = { ...FAULT, from: 20_400, undoneAt: 22_500 }
  expect(backOf({ ways: 1 }, [FAULT, other])).toEqual([3_500, 3_500])
  const later = { ...other, from: 23_000 }
  expect(backOf({ ways: 1 }, [FAULT, later])[0]).toBe(500)
})

test('a service is not late before its database is back', () => {
  const steady = [9_000, 10_000, 21_000, 21_250, 23_500]
  expect(backOf({ databaseWrites: steady })).toEqual([2_000])
  // It goes away only later.
  expect(backOf({ databaseWrites: [...times(14, (n) => 9_000 + n * 1_000), 30_000] })).toEqual([3_000])
})

test('a service that is back before its database is seen to be is not late since an earlier return of the database', () => {
  expect(backOf({ databaseWrites: [9_000, 10_000, 15_000] })).toEqual([3_000])
})

test('a service is late also if its database is back before the fault is undone', () => {
  expect(backOf({ databaseWrites: [10_000, 19_000, 20_000, 21_000, 22_000] })).toEqual([4_000])
})
