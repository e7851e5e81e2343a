import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Histogram } from 'hdr-histogram-js'
import { expect, onTestFinished, test } from 'vitest'
import { drive } from '../../scripts/load-test/drive/drive.ts'
import { Failure } from '../../scripts/load-test/drive/failure.ts'
import type { Operation } from '../../scripts/load-test/drive/load.ts'
import { merge } from '../../scripts/load-test/drive/measurement.ts'
import { openClient } from '../../scripts/load-test/http-client.ts'
import { latencies, percentileCurve, ratioOf } from '../../scripts/load-test/measure/statistics.ts'
import { isClean } from '../../scripts/load-test/report/report.ts'

/** Against servers whose behaviour is known. Only lower bounds are held: a busy machine is slower, never faster. */

/** A timer may fire this much before its time is up by another clock. */
const TIMER_SLACK_MS = 2

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Virtual users that each ask for the root, and the answer to be `{ok: true}`. */
function users(url: string, count: number): Operation[] {
  const client = openClient(url, { connections: count })
  onTestFinished(() => client.close())
  return Array.from({ length: count }, () => async () => {
    const reply = await client.request(200, { method: 'GET', path: '/' })
    if (JSON.stringify(reply) !== ok) throw new Failure('wrong answer: not ok', true)
  })
}

const ok = '{"ok":true}'

function countFrom(histogram: Histogram, ms: number): number {
  let count = 0
  for (let percentile = 100; percentile >= 0; percentile -= 0.1)
    if (histogram.getValueAtPercentile(percentile) < ms * 1000) return count
    else count = Math.round((histogram.totalCount * (100 - percentile)) / 100)
  return histogram.totalCount
}

test('no latency of a server that takes 30 ms is below 30 ms', async () => {
  const url = await serve((_request, response) => {
    setTimeout(() => response.end(ok), 30)
  })
  const measured = await drive({ operations: users(url, 4), durationMs: 400 })
  expect(measured.succeeded).toBeGreaterThan(0)
  expect(measured.histogram.totalCount).toBe(measured.succeeded)
  expect(measured.histogram.minNonZeroValue).toBeGreaterThanOrEqual((30 - TIMER_SLACK_MS) * 1000)
  expect(latencies(measured).p50).toBeGreaterThanOrEqual(30 - TIMER_SLACK_MS)
  expect(measured.errors.size).toBe(0)
})

test('one answer in ten that takes 100 ms shows from the 91st percentile on', async () => {
  let asked = 0
  const url = await serve((_request, response) => {
    asked += 1
    if (asked % 10 === 0) setTimeout(() => response.end(ok), 100)
    else response.end(ok)
  })
  let left = 100
  const [user] = users(url, 1)
  const measured = await drive({
    operations: [() => (left-- > 0 ? (user?.() ?? null) : null)],
    durationMs: 60_000,
  })
  expect(measured.succeeded).toBe(100)
  expect(measured.histogram.getValueAtPercentile(91)).toBeGreaterThanOrEqual((100 - TIMER_SLACK_MS) * 1000)
  const curve = percentileCurve(measured)
  expect(curve[0]?.percentile).toBe(0)
  expect(curve.at(-1)).toEqual({ percentile: 100, ms: latencies(measured).max })
  expect(curve.map(({ ms }) => ms)).toEqual(curve.map(({ ms }) => ms).toSorted((a, b) => a - b))
})

test('in the open loop a stall shows in every operation that was due in it', async () => {
  const STALL_MS = 600
  let stalledUntil = 0
  const url = await serve(async (_request, response) => {
    stalledUntil ||= Date.now() + STALL_MS
    await sleep(Math.max(0, stalledUntil - Date.now()))
    response.end(ok)
  })
  // One virtual user, 100 operations a second: 60 are due in the stall, and 30 of them in its first half.
  const measured = await drive({ operations: users(url, 1), durationMs: 1_000, rate: 100 })
  expect(measured.errors.size).toBe(0)
  expect(countFrom(measured.histogram, STALL_MS / 2 - TIMER_SLACK_MS)).toBeGreaterThanOrEqual(28)
})

test('the open loop makes as many operations as are due, and not one more', async () => {
  const url = await serve((_request, response) => response.end(ok))
  const measured = await drive({ operations: users(url, 8), durationMs: 500, rate: 200 })
  expect(measured.succeeded).toBeLessThanOrEqual(Math.floor(measured.seconds * 200))
  expect(measured.succeeded).toBeGreaterThan(0)
})

test('the open loop ends when nobody has more to do', async () => {
  const url = await serve((_request, response) => response.end(ok))
  let left = 5
  const operations = users(url, 2).map((user) => () => (left-- > 0 ? user() : null))
  const measured = await drive({ operations, durationMs: 60_000, rate: 1_000 })
  expect(measured.succeeded).toBe(5)
  expect(measured.errors.size).toBe(0)
})

test('errors are counted by status and code, and only the right answers have latencies', async () => {
  const answers: [number, string][] = [
    [200, ok],
    [503, '{"type":"about:blank","status":503,"code":"overloaded"}'],
    [429, '{"code":"rate_limited"}'],
    [502, 'Bad Gateway'],
    [200, '{"ok":false}'],
  ]
  let asked = 0
  const url = await serve((_request, response) => {
    const [status, body] = answers[asked++ % answers.length] ?? []
    response.writeHead(status ?? 0).end(body)
  })
  let left = 50
  const [user] = users(url, 1)
  const measured = await drive({
    operations: [() => (left-- > 0 ? (user?.() ?? null) : null)],
    durationMs: 60_000,
  })
  expect(Object.fromEntries(measured.errors)).toEqual({
    '503 overloaded': 10,
    '429 rate_limited': 10,
    '502': 10,
    'wrong answer: not ok': 10,
  })
  expect(measured).toMatchObject({ succeeded: 10, wrong: 10 })
  expect(measured.histogram.totalCount).toBe(10)
})

test('a connection that is cut off is an error with its code, and the next request goes on', async () => {
  let asked = 0
  const url = await serve((request, response) => {
    asked += 1
    if (asked === 1) request.socket.destroy()
    else response.end(ok)
  })
  let left = 3
  const [user] = users(url, 1)
  const measured = await drive({
    operations: [() => (left-- > 0 ? (user?.() ?? null) : null)],
    durationMs: 60_000,
  })
  expect(Object.fromEntries(measured.errors)).toEqual({ UND_ERR_SOCKET: 1 })
  expect(measured.succeeded).toBe(2)
})

test('ending a load early keeps what was measured', async () => {
  const stop = new AbortController()
  const url = await serve((_request, response) => response.end(ok))
  let answered = 0
  const operations = users(url, 1).map((user) => async () => {
    await user()
    answered += 1
    if (answered === 20) stop.abort()
  })
  const measured = await drive({ operations, durationMs: 60_000, signal: stop.signal })
  expect(measured.succeeded).toBe(20)
})

test('rounds add up as if they had been one', async () => {
  const url = await serve((_request, response) => response.end(ok))
  const rounds = []
  for (let round = 0; round < 2; round += 1)
    rounds.push(await drive({ operations: users(url, 2), durationMs: 50 }))
  const sum = merge(rounds)
  const total = rounds.reduce((count, { succeeded }) => count + succeeded, 0)
  expect(sum.succeeded).toBe(total)
  expect(sum.histogram.totalCount).toBe(total)
})

test('a ratio is the median of its rounds, with the least and the most of them', () => {
  expect(ratioOf([0.5, 0.2, 0.4])).toEqual({ median: 0.4, min: 0.2, max: 0.5 })
  expect(ratioOf([0.5, 0.2, 0.4, 0.3])).toMatchObject({ median: 0.35 })
  expect(ratioOf([])).toBeNull()
})

test.each([
  ['no error', {}, 9, true],
  ['a 429', { '429 rate_limited': 1 }, 9, true],
  ['a 5xx', { '503 overloaded': 1 }, 9, false],
  ['a wrong answer', { 'wrong answer: not ok': 1 }, 9, false],
  ['a connection that was cut off', { UND_ERR_SOCKET: 1 }, 9, false],
  ['no answer at all', {}, 0, false],
])('%s decides about the run', (_what, errors, succeeded, clean) => {
  expect(isClean([{ errors, succeeded }])).toBe(clean)
})
