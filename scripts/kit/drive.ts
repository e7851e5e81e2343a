import { setTimeout as sleep } from 'node:timers/promises'
import { build, type Histogram } from 'hdr-histogram-js'
import { codeOf } from './client.ts'

/** Load in an open loop, for work that autocannon cannot do, such as a new connection for each request. */

/** A request and the check of its response. A virtual user repeats it. */
export type Work = () => Promise<void>

interface Load {
  works: Work[]
  durationMs: number
  /** Requests per second that are due, whatever the responses. */
  rate: number
}

export interface Measurement {
  succeeded: number
  errors: Map<string, number>
  /** Latencies of the successful requests, in microseconds. */
  histogram: Histogram
}

const GRACE_MS = 10_000
/** Longer latencies count as this long. */
const MAX_LATENCY_US = 120_000_000

export const createHistogram = () =>
  build({ highestTrackableValue: MAX_LATENCY_US, numberOfSignificantValueDigits: 3 })

export const toMicroseconds = (ms: number) => Math.min(MAX_LATENCY_US, Math.max(1, Math.round(ms * 1000)))

/**
 * Latency counts from when a request was due, even if no virtual user was free. Otherwise, a stall would show in only one of
 * the requests that were due during it (coordinated omission).
 */
export async function drive({ works, durationMs, rate }: Load): Promise<Measurement> {
  const histogram = createHistogram()
  const measurement: Measurement = { succeeded: 0, errors: new Map(), histogram }
  const startedAt = performance.now()
  const idle = [...works]
  let [due, begun, ended] = [0, 0, 0]
  let isClosed = false
  const fail = (code: string) => measurement.errors.set(code, (measurement.errors.get(code) ?? 0) + 1)

  async function perform(work: Work, dueAt: number): Promise<void> {
    try {
      await work()
      if (isClosed) return
      measurement.succeeded += 1
      histogram.recordValue(toMicroseconds(performance.now() - dueAt))
    } catch (error) {
      if (!isClosed) fail(codeOf(error))
    }
  }

  function dispatch(): void {
    for (let work = idle.at(-1); work && begun < due; work = idle.at(-1)) {
      idle.pop()
      const mine = work
      void perform(mine, startedAt + (begun / rate) * 1000).then(() => {
        ended += 1
        idle.push(mine)
        dispatch()
      })
      begun += 1
    }
  }

  for (let isLast = false; !isLast; await sleep(1)) {
    // Requests that became due while this process was busy are sent late, even at the end.
    const elapsedMs = performance.now() - startedAt
    isLast = elapsedMs >= durationMs
    due = Math.floor((Math.min(elapsedMs, durationMs) / 1000) * rate) + 1
    dispatch()
  }
  const graceEndsAt = performance.now() + GRACE_MS
  while (ended < due && performance.now() < graceEndsAt) await sleep(5)
  for (let left = due - ended; left > 0; left -= 1) fail('unanswered')
  isClosed = true
  return measurement
}

/** In milliseconds. The histogram returns the upper end of a bucket, which can be above the highest latency. */
export function latencyAt(histogram: Histogram, percentile: number): number {
  return Math.min(histogram.getValueAtPercentile(percentile), histogram.maxValue) / 1000
}
