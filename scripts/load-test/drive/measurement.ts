import { build, type Histogram } from 'hdr-histogram-js'

/** What happened in one second. Latencies are in milliseconds. */
export interface Second {
  /** Seconds since the start of the measurement. */
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
  /** Number of failures by code. */
  errors: Map<string, number>
  wrong: number
  seconds: number
  series: Second[]
}

/** Longer latencies count as this long. */
export const MAX_LATENCY_US = 120_000_000

export function createHistogram(): Histogram {
  return build({ highestTrackableValue: MAX_LATENCY_US, numberOfSignificantValueDigits: 3 })
}

export function createMeasurement(): Measurement {
  return { histogram: createHistogram(), succeeded: 0, errors: new Map(), wrong: 0, seconds: 0, series: [] }
}

/** Adds measurements up as if one had followed the other without a break. */
export function merge(measurements: Measurement[]): Measurement {
  const sum = createMeasurement()
  for (const { histogram, succeeded, errors, wrong, seconds, series } of measurements) {
    sum.histogram.add(histogram)
    sum.succeeded += succeeded
    sum.wrong += wrong
    for (const [code, count] of errors) sum.errors.set(code, (sum.errors.get(code) ?? 0) + count)
    sum.series.push(...series.map((second) => ({ ...second, at: second.at + sum.seconds })))
    sum.seconds += seconds
  }
  return sum
}
