import { expect, test } from 'vitest'
import { connectionLimit } from '../../src/edge/connection-limit.ts'

test('the maximum of connections follows from the limit of open files, with some left for the rest of the process', () => {
  expect(connectionLimit(10, 1024)).toBe(914)
  expect(connectionLimit(1000, 1024)).toBe(16)
  expect(connectionLimit(10, 1_048_576)).toBe(10_000)
  expect(connectionLimit(10, Number.POSITIVE_INFINITY)).toBe(10_000)
  expect(connectionLimit(10)).toBeGreaterThanOrEqual(16)
})
