import autocannon from 'autocannon'
import type { Histogram } from 'hdr-histogram-js'
import { codeOf } from '../kit/client.ts'
import { createHistogram, toMicroseconds } from '../kit/drive.ts'
import type { Operation } from '../kit/operations.ts'

/** Load by autocannon, in a closed loop. Each operation has one connection. */

interface Load {
  url: string
  operations: Operation[]
  durationMs: number
  signal: AbortSignal
}

export interface Measurement {
  succeeded: number
  /** By code, including wrong responses. */
  errors: Record<string, number>
  /** Latencies of the successful requests, in microseconds. */
  histogram: Histogram
  seconds: number
}

const TIMEOUT_SECONDS = 30
const SAMPLE_MS = 100

export async function drive(load: Load): Promise<Measurement> {
  const { url, operations, durationMs, signal } = load
  const measurement: Measurement = { succeeded: 0, errors: {}, histogram: createHistogram(), seconds: 0 }
  const { errors, histogram } = measurement
  const fail = (code: string) => {
    errors[code] = (errors[code] ?? 0) + 1
  }
  const users = operations.values()
  let isOver = false
  let stop = () => {}
  if (signal.aborted) return measurement
  const startedAt = performance.now()
  await new Promise<unknown>((resolve, reject) => {
    const options = {
      url,
      connections: operations.length,
      duration: durationMs / 1000,
      timeout: TIMEOUT_SECONDS,
      // How often autocannon checks whether the time is up.
      sampleInt: SAMPLE_MS,
      setupClient,
    }
    const running = autocannon(options, (error, result) => (error ? reject(error) : resolve(result)))
    running.on('reqError', (error) => fail(codeOf(error)))
    stop = () => running.stop?.()
    signal.addEventListener('abort', stop)
  })
  signal.removeEventListener('abort', stop)
  measurement.seconds = (performance.now() - startedAt) / 1000
  return measurement

  function setupClient(client: autocannon.Client): void {
    const { value: operation } = users.next()
    if (!operation) throw new Error('autocannon opened one connection too many')
    let isRight = false
    client.setRequests([
      {
        setupRequest(request) {
          const next = operation.request()
          // Nothing is left to do. autocannon still sends a request, which does not count.
          isOver ||= !next
          if (isOver) stop()
          const { method = 'GET', path = '/', token, headers, body = '' } = next ?? {}
          const authorization = token !== undefined && { authorization: `Bearer ${token}` }
          return { ...request, method, path, headers: { ...authorization, ...headers }, body }
        },
        onResponse(status, text) {
          isRight = false
          if (isOver) return
          try {
            operation.take({ status, text, cookies: [] })
            isRight = true
          } catch (error) {
            fail(codeOf(error))
          }
        },
      },
    ])
    client.on('response', (_status: number, _bytes: number, ms: number) => {
      if (!isRight) return
      measurement.succeeded += 1
      histogram.recordValue(toMicroseconds(ms))
    })
  }
}
