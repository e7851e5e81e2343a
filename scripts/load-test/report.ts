import { cpus, totalmem } from 'node:os'
import type { Histogram } from 'hdr-histogram-js'
import type { Measurement, Second } from './drive.ts'

/** What a load test found out, for people on the terminal and for programs as JSON. */

export interface Figures {
  scenario: string
  about: string
  connections: number
  /** Operations a second asked for in the open loop; null in the closed loop. */
  targetRate: number | null
  rounds: number
  seconds: number
  /** `events` where an operation carries many; both rates are theirs. */
  unit: 'requests' | 'events'
  rate: number
  latencyMs: Record<'p50' | 'p90' | 'p99' | 'p999' | 'max', number>
  succeeded: number
  errors: Record<string, number>
  wrong: number
  /** CPU milliseconds an operation; null where they cannot be read. */
  cpuMs: { service: number | null; postgres: number | null }
  /** Resident memory of the service at the end of each round, in MB. */
  memoryMb: number[]
  against: { name: string; compare: 'rate' | 'p99'; value: number; ratio: Ratio } | null
  notes: string[]
  percentiles: { percentile: number; ms: number }[]
  series: Second[]
}

/** Over the rounds. */
export interface Ratio {
  median: number
  min: number
  max: number
}

export function latencies({ histogram }: Measurement): Figures['latencyMs'] {
  const at = (percentile: number) => valueAt(histogram, percentile) / 1000
  return { p50: at(50), p90: at(90), p99: at(99), p999: at(99.9), max: histogram.maxValue / 1000 }
}

/** The histogram answers with the upper end of a bucket, which for the last one no latency may have reached. */
function valueAt(histogram: Histogram, percentile: number): number {
  return Math.min(histogram.getValueAtPercentile(percentile), histogram.maxValue)
}

/** Ever closer to the slowest: 0, 50, 75, 87.5 and so on. */
export function percentileCurve({ histogram }: Measurement): Figures['percentiles'] {
  const curve: Figures['percentiles'] = []
  const last = histogram.totalCount === 0 ? 0 : 1 - 1 / histogram.totalCount
  for (let missing = 1; missing > 1e-6; missing /= 2 ** 0.25) {
    const share = 1 - missing
    if (share > last) break
    curve.push({ percentile: share * 100, ms: valueAt(histogram, share * 100) / 1000 })
  }
  if (histogram.totalCount > 0) curve.push({ percentile: 100, ms: histogram.maxValue / 1000 })
  return curve
}

export function ratioOf(values: number[]): Ratio | null {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  const [min, below, above, max] = [0, Math.floor(middle), Math.ceil(middle), -1].map((at) => sorted.at(at))
  if (min === undefined || below === undefined || above === undefined || max === undefined) return null
  return { median: (below + above) / 2, min, max }
}

export interface Machine {
  cores: number
  cpu: string
  memoryGb: number
  node: string
  platform: string
}

export function machine(): Machine {
  return {
    cores: cpus().length,
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGb: Math.round(totalmem() / 2 ** 30),
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
  }
}

/** Whether each scenario was answered, and never wrongly: of all errors only a limit that was met is none. */
export function isClean(figures: Pick<Figures, 'succeeded' | 'errors'>[]): boolean {
  return figures.every(
    ({ succeeded, errors }) => succeeded > 0 && Object.keys(errors).every((code) => code.startsWith('429')),
  )
}

const short = (value: number) =>
  value >= 1000
    ? Math.round(value).toLocaleString('en')
    : value >= 100
      ? value.toFixed(0)
      : value.toFixed(value >= 10 ? 1 : 2)
const orNone = (value: number | null, digits = 3) => (value === null ? '–' : value.toFixed(digits))

export const COLUMNS: [string, (figures: Figures) => string][] = [
  ['scenario', ({ scenario }) => scenario],
  ['conns', ({ connections }) => String(connections)],
  ['rate/s', ({ rate }) => short(rate)],
  ['p50 ms', ({ latencyMs }) => short(latencyMs.p50)],
  ['p90', ({ latencyMs }) => short(latencyMs.p90)],
  ['p99', ({ latencyMs }) => short(latencyMs.p99)],
  ['p99.9', ({ latencyMs }) => short(latencyMs.p999)],
  ['max', ({ latencyMs }) => short(latencyMs.max)],
  ['errors', ({ errors }) => String(Object.values(errors).reduce((sum, count) => sum + count, 0))],
  ['CPU ms/request', ({ cpuMs }) => orNone(cpuMs.service)],
  ['of Postgres', ({ cpuMs }) => orNone(cpuMs.postgres)],
  ['MB', ({ memoryMb }) => (memoryMb.length > 0 ? Math.max(...memoryMb).toFixed(0) : '–')],
  ['ratio (min–max)', ({ against }) => (against ? describeRatio(against.ratio) : '–')],
  ['to', ({ against, unit }) => (against ? `${against.name}: ${describeValue(against, unit)}` : '–')],
]

function describeRatio({ median, min, max }: Ratio): string {
  return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
}

function describeValue({ compare, value }: NonNullable<Figures['against']>, unit: Figures['unit']): string {
  return compare === 'p99'
    ? `p99 ${short(value)} ms`
    : `${short(value)} ${unit === 'events' ? 'events' : ''}/s`.replace(' /s', '/s')
}

/** The table for the terminal, with what needs a sentence below it. */
export function toText(figures: Figures[]): string {
  const rows = [
    COLUMNS.map(([title]) => title),
    ...figures.map((one) => COLUMNS.map(([, show]) => show(one))),
  ]
  const widths = COLUMNS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const lines = rows.map((row) =>
    row
      // Words to the left, figures to the right.
      .map((cell, column) => {
        const width = widths[column] ?? 0
        return column === 0 || column === COLUMNS.length - 1 ? cell.padEnd(width) : cell.padStart(width)
      })
      .join('  ')
      .trimEnd(),
  )
  const notes = figures.flatMap(({ scenario, errors, wrong, notes: own }) => [
    ...Object.entries(errors).map(([code, count]) => `${scenario}: ${count} × ${code}`),
    ...(wrong > 0 ? [`${scenario}: ${wrong} wrong answers`] : []),
    ...own.map((note) => `${scenario}: ${note}`),
  ])
  return [...lines, ...(notes.length > 0 ? ['', ...notes] : [])].join('\n')
}
