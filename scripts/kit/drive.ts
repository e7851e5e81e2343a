import { setTimeout as sleep } from 'node:timers/promises'
import { build, type Histogram } from 'hdr-histogram-js'
import { codeOf } from './errors.ts'

/** Puts load on a service by work that autocannon cannot do, such as a new connection for each request, and measures it. */

/** One request and the check of its response. A virtual user repeats it. */
export type Work = () => Promise<void>

interface Load {
  /** One for each virtual user. */
  works: Work[]
  durationMs: number
  /** Open loop: requests per second that are due, answered or not. Closed loop without it. */
  rate?: number
  signal?: AbortSignal
}

export interface Measurement {
  succeeded: number
  /** Number of failures by code. */
  errors: Map<string, number>
  /** Latencies of the successful requests, in microseconds. */
  histogram: Histogram
}

/** How long to wait for outstanding responses after the end, before they count as unanswered. */
const GRACE_MS = 10_000
/** Longer latencies count as this long. */
const MAX_LATENCY_US = 120_000_000

/** Of latencies in microseconds. */
export const createHistogram = () =>
  build({ highestTrackableValue: MAX_LATENCY_US, numberOfSignificantValueDigits: 3 })

export const toMicroseconds = (ms: number) => Math.min(MAX_LATENCY_US, Math.max(1, Math.round(ms * 1000)))

export async function drive({ works, durationMs, rate, signal }: Load): Promise<Measurement> {
  const histogram = createHistogram()
  const measurement: Measurement = { succeeded: 0, errors: new Map(), histogram }
  const startedAt = performance.now()
  let isClosed = false
  const isOver = () => performance.now() >= startedAt + durationMs || signal?.aborted === true
  const fail = (code: string) => measurement.errors.set(code, (measurement.errors.get(code) ?? 0) + 1)

  /** Its latency counts from `dueAt`. */
  async function perform(work: Work, dueAt: number): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!isClosed) fail(codeOf(error))
      return
    }
    if (isClosed) return
    measurement.succeeded += 1
    histogram.recordValue(toMicroseconds(performance.now() - dueAt))
  }

  async function repeat(work: Work): Promise<void> {
    while (!isOver()) await perform(work, performance.now())
  }

  /**
   * Latency counts from when a request was due, even if no virtual user was free. So a stall shows in all requests that were
   * due during it, not in one (coordinated omission).
   */
  async function runOpenLoop(perSecond: number): Promise<void> {
    const idle = [...works]
    let due = 0
    let begun = 0
    let ended = 0
    const dispatch = () => {
      for (let work = idle.at(-1); work && begun < due; work = idle.at(-1)) {
        idle.pop()
        const mine = work
        void perform(mine, startedAt + (begun / perSecond) * 1000).then(() => {
          ended += 1
          idle.push(mine)
          dispatch()
        })
        begun += 1
      }
    }
    for (let isLast = false; !isLast; await sleep(1)) {
      // What became due while this process had no time is sent late, even at the end.
      isLast = isOver()
      const elapsedMs = Math.min(performance.now() - startedAt, durationMs)
      due = Math.floor((elapsedMs / 1000) * perSecond) + 1
      dispatch()
    }
    const graceEndsAt = performance.now() + GRACE_MS
    while (ended < due && performance.now() < graceEndsAt && !signal?.aborted) await sleep(5)
    if (!signal?.aborted) for (let left = due - ended; left > 0; left -= 1) fail('unanswered')
  }

  if (rate === undefined) await Promise.all(works.map(repeat))
  else await runOpenLoop(rate)
  isClosed = true
  return measurement
}

/** In milliseconds. The histogram returns the upper end of a bucket, which can be above the highest latency. */
export function latencyAt(histogram: Histogram, percentile: number): number {
  return Math.min(histogram.getValueAtPercentile(percentile), histogram.maxValue) / 1000
}
