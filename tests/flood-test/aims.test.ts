import { expect, test } from 'vitest'
import {
  type Aim,
  answered,
  type Figures,
  megabytesInAnHourBelow,
  memoryBelow,
  rowsAtMost,
  succeed,
} from '../../scripts/flood-test/aims.ts'
import { ipv4Networks, ipv6Networks } from '../../scripts/flood-test/networks.ts'

/** Criteria of the flood test, and the sources of its requests. */

const MB = 2 ** 20

function figuresOf(values: Partial<Figures>): Figures {
  const measured = { seen: [], memoryMb: 100, written: [] }
  return {
    ...{ flood: 'any', about: '', seconds: { before: 20, during: 60 }, attack: {}, findings: [] },
    ...{ before: measured, during: measured },
    ...values,
  }
}

const written = (rows: number, bytes = 0, table = 'a') => ({
  ...{ seen: [], memoryMb: null, written: [{ table, rows, bytes }] },
})
const isMet = (aim: Aim | undefined, values: Partial<Figures>) => aim?.(figuresOf(values)).isMet

test('rows that honest users write do not count for the flood', () => {
  const figures = { before: written(80), during: written(300) }
  expect(isMet(rowsAtMost(0, 60), figures)).toBe(true)
  expect(isMet(rowsAtMost(0, 59), figures)).toBe(false)
})

test('bytes count by the share of the rows that the flood writes', () => {
  const figures = { before: written(20, 1_000 * MB), during: written(300, 10 * MB) }
  expect(isMet(megabytesInAnHourBelow(8.1), figures)).toBe(true)
  expect(isMet(megabytesInAnHourBelow(8), figures)).toBe(false)
})

test('a wrong status for attackers misses the aim, connection errors do not', () => {
  const aim = answered(401, 503)
  expect(isMet(aim, { attack: { sent: 3, '401': 1, '503': 1, ECONNRESET: 1 } })).toBe(true)
  expect(isMet(aim, { attack: { sent: 3, '401': 2, '200': 1 } })).toBe(false)
  expect(isMet(aim, {})).toBe(false)
})

test('too few successes or too much memory misses the aim', () => {
  const seen = { kind: 'refresh' as const, sent: 100, succeeded: 97, share: 0.97, p50: 1, p99: 1, errors: {} }
  const figures = { during: { seen: [seen], memoryMb: 350, written: [] } }
  expect([0.97, 0.98].map((least) => isMet(succeed(least, 'refresh')[0], figures))).toEqual([true, false])
  expect([351, 350].map((mb) => isMet(memoryBelow(mb), figures))).toEqual([true, false])
})

test('attackers come from as many networks as a flood says', () => {
  const some = (networks: (n: number) => string) =>
    new Set(Array.from({ length: 20_000 }, (_, n) => networks(n)))
  const ipv4 = [...some(ipv4Networks(5_000))]
  expect(ipv4).toHaveLength(5_000)
  expect(ipv4.filter((ipAddress) => !/^198\.1[89]\.\d{1,3}\.\d{1,3}$/.test(ipAddress))).toEqual([])
  expect(some(ipv6Networks).size).toBe(20_000)
  expect([65_535, 65_536].map(ipv6Networks)).toEqual(['2001:db8:7:ffff::1', '2001:db8:7:0::2'])
})
