import type { Histogram } from 'hdr-histogram-js'
import { codeOf, Failure } from './failure.ts'
import type { Operation } from './load.ts'
import {
  createHistogram,
  createMeasurement,
  MAX_LATENCY_US,
  type Measurement,
  type Second,
} from './measurement.ts'

/** A measurement that is still being made. */
export interface Recording {
  measurement: Measurement
  startedAt: number
  /** Latencies and errors since the end of the last recorded second. */
  recent: { histogram: Histogram; errors: number }
  /** When true, answers that still arrive are ignored: they were counted as unanswered. */
  isClosed: boolean
}

export function startRecording(): Recording {
  return {
    measurement: createMeasurement(),
    startedAt: performance.now(),
    recent: { histogram: createHistogram(), errors: 0 },
    isClosed: false,
  }
}

/** Runs one operation, whose latency counts from `dueAt`. False if the virtual user has nothing left to do. */
export async function perform(recording: Recording, operation: Operation, dueAt: number): Promise<boolean> {
  try {
    const work = operation()
    if (work === null) return false
    await work
  } catch (error) {
    if (recording.isClosed) return false
    recordFailure(recording, codeOf(error), error instanceof Failure && error.isWrong)
    return true
  }
  if (recording.isClosed) return false
  recordSuccess(recording, performance.now() - dueAt)
  return true
}

function recordSuccess({ measurement, recent }: Recording, latencyMs: number): void {
  const latencyUs = Math.min(MAX_LATENCY_US, Math.max(1, Math.round(latencyMs * 1000)))
  measurement.histogram.recordValue(latencyUs)
  recent.histogram.recordValue(latencyUs)
  measurement.succeeded += 1
}

export function recordFailure({ measurement, recent }: Recording, code: string, isWrong = false): void {
  measurement.errors.set(code, (measurement.errors.get(code) ?? 0) + 1)
  if (isWrong) measurement.wrong += 1
  recent.errors += 1
}

/** Adds what happened since the last call to the series. */
export function recordSecond(recording: Recording): Second {
  const { measurement, recent } = recording
  const at = elapsedSeconds(recording)
  const second: Second = {
    at,
    rate: recent.histogram.totalCount / (at - (measurement.series.at(-1)?.at ?? 0)),
    p50: recent.histogram.getValueAtPercentile(50) / 1000,
    p99: recent.histogram.getValueAtPercentile(99) / 1000,
    errors: recent.errors,
  }
  measurement.series.push(second)
  recording.recent = { histogram: createHistogram(), errors: 0 }
  return second
}

export function elapsedSeconds({ startedAt }: Recording): number {
  return (performance.now() - startedAt) / 1000
}
