import { setTimeout as sleep } from 'node:timers/promises'
import { build, type Histogram } from 'hdr-histogram-js'

/** Puts load on something and measures it: closed loop, or open loop at a fixed rate. */

/** One request and the check of its answer, made again and again by one virtual user; null when it has no more to do. */
export type Operation = () => Promise<void> | null

/** An answer that is not the expected one. `isWrong`: it claims success, and is not what was asked for. */
export class Failure extends Error {
  readonly code: string
  readonly isWrong: boolean
  constructor(code: string, isWrong = false) {
    super(code)
    this.code = code
    this.isWrong = isWrong
  }
}

/** What happened in one second. Latencies in milliseconds. */
export interface Second {
  at: number
  rate: number
  p50: number
  p99: number
  errors: number
}

export interface Measurement {
  /** Latencies of the operations that succeeded, in microseconds. */
  histogram: Histogram
  succeeded: number
  /** Failures by code. */
  errors: Map<string, number>
  wrong: number
  seconds: number
  series: Second[]
}

interface Load {
  operations: Operation[]
  durationMs: number
  /** Operations a second that are due, whether or not the former ones were answered; closed loop without it. */
  rate?: number | undefined
  signal?: AbortSignal | undefined
  onSecond?(second: Second, leftSeconds: number): void
}

/** How long outstanding answers are waited for when the time is over, before they count as unanswered. */
const GRACE_MS = 10_000
const MAX_LATENCY_US = 120_000_000

export function newHistogram(): Histogram {
  return build({ highestTrackableValue: MAX_LATENCY_US, numberOfSignificantValueDigits: 3 })
}

/**
 * In the closed loop each virtual user starts its next operation when its last was answered. In the open loop
 * operations start on time, and latency counts from then even if no virtual user was free: a stall shows in
 * all that were due in it, not in one (coordinated omission).
 */
export async function drive(load: Load): Promise<Measurement> {
  const { operations, durationMs, rate, signal, onSecond } = load
  const measurement: Measurement = {
    histogram: newHistogram(),
    succeeded: 0,
    errors: new Map(),
    wrong: 0,
    seconds: 0,
    series: [],
  }
  let recent = newHistogram()
  let recentErrors = 0
  const startedAt = performance.now()
  const endsAt = startedAt + durationMs
  let isClosed = false
  const isOver = () => performance.now() >= endsAt || signal?.aborted === true

  function fail(code: string, isWrong = false): void {
    measurement.errors.set(code, (measurement.errors.get(code) ?? 0) + 1)
    if (isWrong) measurement.wrong += 1
    recentErrors += 1
  }

  /** False when the virtual user has no more to do. */
  async function perform(operation: Operation, from: number): Promise<boolean> {
    let failure: unknown
    try {
      const work = operation()
      if (work === null) return false
      await work
    } catch (error) {
      failure = error
    }
    // Counted as unanswered by now.
    if (isClosed) return false
    if (failure !== undefined) {
      fail(codeOf(failure), failure instanceof Failure && failure.isWrong)
      return true
    }
    const latency = Math.min(MAX_LATENCY_US, Math.max(1, Math.round((performance.now() - from) * 1000)))
    measurement.histogram.recordValue(latency)
    recent.recordValue(latency)
    measurement.succeeded += 1
    return true
  }

  function noteSecond(): void {
    const seconds = (performance.now() - startedAt) / 1000
    const last = measurement.series.at(-1)?.at ?? 0
    const second: Second = {
      at: seconds,
      rate: recent.totalCount / (seconds - last),
      p50: recent.getValueAtPercentile(50) / 1000,
      p99: recent.getValueAtPercentile(99) / 1000,
      errors: recentErrors,
    }
    measurement.series.push(second)
    recent = newHistogram()
    recentErrors = 0
    onSecond?.(second, Math.max(0, durationMs / 1000 - seconds))
  }
  const ticker = setInterval(noteSecond, 1000)

  async function closedLoop(operation: Operation): Promise<void> {
    while (!isOver()) if (!(await perform(operation, performance.now()))) return
  }

  async function openLoop(perSecond: number): Promise<void> {
    const free = [...operations]
    const due: number[] = []
    let busy = 0
    let issued = 0
    /** Nobody is left who has more to do. */
    const isDone = () => free.length + busy === 0
    function dispatch(): void {
      while (due.length > 0 && free.length > 0) {
        const operation = free.pop()
        const from = due.shift()
        if (!operation || from === undefined) return
        busy += 1
        void perform(operation, from).then((goesOn) => {
          busy -= 1
          if (goesOn) free.push(operation)
          dispatch()
        })
      }
    }
    while (!isOver() && !isDone()) {
      const target = Math.floor(((performance.now() - startedAt) / 1000) * perSecond)
      for (; issued < target; issued += 1) due.push(startedAt + (issued / perSecond) * 1000)
      dispatch()
      await sleep(1)
    }
    const graceEndsAt = performance.now() + GRACE_MS
    const outstanding = () => (isDone() ? 0 : due.length + busy)
    while (outstanding() > 0 && performance.now() < graceEndsAt && !signal?.aborted) await sleep(5)
    // Who ended the load did not wait for them.
    if (!signal?.aborted) for (let left = outstanding(); left > 0; left -= 1) fail('unanswered')
  }

  try {
    if (rate === undefined) await Promise.all(operations.map(closedLoop))
    else await openLoop(rate)
  } finally {
    isClosed = true
    clearInterval(ticker)
  }
  if (measurement.series.length === 0) noteSecond()
  measurement.seconds = (performance.now() - startedAt) / 1000
  return measurement
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error)
}

/** The sum of several, as if they had been one. */
export function merge(measurements: Measurement[]): Measurement {
  const sum: Measurement = {
    histogram: newHistogram(),
    succeeded: 0,
    errors: new Map(),
    wrong: 0,
    seconds: 0,
    series: [],
  }
  for (const one of measurements) {
    sum.histogram.add(one.histogram)
    sum.succeeded += one.succeeded
    sum.wrong += one.wrong
    for (const [code, count] of one.errors) sum.errors.set(code, (sum.errors.get(code) ?? 0) + count)
    sum.series.push(...one.series.map((second) => ({ ...second, at: second.at + sum.seconds })))
    sum.seconds += one.seconds
  }
  return sum
}
