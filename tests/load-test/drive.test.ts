import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openClient, requireCorrect, requireStatus } from '../../scripts/kit/client.ts'
import { drive, latencyAt } from '../../scripts/kit/drive.ts'
import { type Operation, perform } from '../../scripts/kit/operations.ts'
import { drive as driveByAutocannon } from '../../scripts/load-test/drive.ts'

/** Load is driven against servers with known behavior. */

const OK = '{"ok":true}'

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Requests the root this many times. Each response must be `{"ok":true}`. */
function operation(times: number): Operation {
  let left = times
  return {
    request: () => (left-- > 0 ? { method: 'GET', path: '/' } : undefined),
    take(answer) {
      requireStatus(200, answer)
      requireCorrect(answer.text === OK, 'not ok')
    },
  }
}

test('autocannon counts errors by code and latencies of correct responses only', async () => {
  const answers: [number, string][] = [
    [200, OK],
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
  const { signal } = new AbortController()
  const measured = await driveByAutocannon({ url, operations: [operation(50)], durationMs: 60_000, signal })
  expect(measured.errors).toEqual({
    '503 overloaded': 10,
    '429 rate_limited': 10,
    '502': 10,
    'wrong response: not ok': 10,
  })
  expect([measured.succeeded, measured.histogram.totalCount]).toEqual([10, 10])
})

test('in the open loop, a stall delays every request due in it', async () => {
  const STALL_MS = 600
  let stalledUntil = 0
  const url = await serve(async (_request, response) => {
    stalledUntil ||= Date.now() + STALL_MS
    await sleep(Math.max(0, stalledUntil - Date.now()))
    response.end(OK)
  })
  const client = openClient(url, { connections: 1 })
  onTestFinished(() => client.close())
  // One virtual user at 100 requests per second: 60 are due in the stall, and 30 of them in its first half.
  const asking = operation(Number.POSITIVE_INFINITY)
  const measured = await drive({ works: [() => perform(client, asking)], durationMs: 1_000, rate: 100 })
  expect(measured.errors.size).toBe(0)
  const { totalCount } = measured.histogram
  // A timer can fire slightly early by a different clock. A busy machine can only be slower.
  expect(latencyAt(measured.histogram, 100 * (1 - 28 / totalCount))).toBeGreaterThan(STALL_MS / 2 - 3)
})
