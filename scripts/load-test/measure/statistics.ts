import type { Histogram } from 'hdr-histogram-js'
import type { Measurement } from '../drive/measurement.ts'

/** In milliseconds. */
export type Latencies = Record<'p50' | 'p90' | 'p95' | 'p99' | 'p999' | 'max', number>

/** Ratios of the rounds. */
export interface Ratio {
  median: number
  min: number
  max: number
}

export interface PercentilePoint {
  percentile: number
  ms: number
}

export function latencies({ histogram }: Measurement): Latencies {
  const at = (percentile: number) => valueAt(histogram, percentile) / 1000
  return {
    p50: at(50),
    p90: at(90),
    p95: at(95),
    p99: at(99),
    p999: at(99.9),
    max: histogram.maxValue / 1000,
  }
}

/** Four points from each of the percentiles 0, 50, 75, 87.5 and so on to the next, and the slowest at 100. */
export function percentileCurve({ histogram }: Measurement): PercentilePoint[] {
  if (histogram.totalCount === 0) return []
  const curve: PercentilePoint[] = []
  const last = 1 - 1 / histogram.totalCount
  for (let missing = 1; missing > 1e-6; missing /= 2 ** 0.25) {
    const share = 1 - missing
    if (share > last) break
    curve.push({ percentile: share * 100, ms: valueAt(histogram, share * 100) / 1000 })
  }
  return [...curve, { percentile: 100, ms: histogram.maxValue / 1000 }]
}

/** The histogram returns the upper end of a bucket, which can be above the highest latency. */
function valueAt(histogram: Histogram, percentile: number): number {
  return Math.min(histogram.getValueAtPercentile(percentile), histogram.maxValue)
}

export function ratioOf(values: number[]): Ratio | null {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  const [min, below, above, max] = [0, Math.floor(middle), Math.ceil(middle), -1].map((at) => sorted.at(at))
  if (min === undefined || below === undefined || above === undefined || max === undefined) return null
  return { median: (below + above) / 2, min, max }
}
