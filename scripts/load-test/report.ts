import { cpus, totalmem } from 'node:os'
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
  const at = (percentile: number) => histogram.getValueAtPercentile(percentile) / 1000
  return { p50: at(50), p90: at(90), p99: at(99), p999: at(99.9), max: histogram.maxValue / 1000 }
}

/** Ever closer to the slowest: 0, 50, 75, 87.5 and so on. */
export function percentileCurve({ histogram }: Measurement): Figures['percentiles'] {
  const curve: Figures['percentiles'] = []
  const last = histogram.totalCount === 0 ? 0 : 1 - 1 / histogram.totalCount
  for (let missing = 1; missing > 1e-6; missing /= 2 ** 0.25) {
    const share = 1 - missing
    if (share > last) break
    curve.push({ percentile: share * 100, ms: histogram.getValueAtPercentile(share * 100) / 1000 })
  }
  if (histogram.totalCount > 0) curve.push({ percentile: 100, ms: histogram.maxValue / 1000 })
  return curve
}

export function ratioOf(values: number[]): Ratio | null {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b)
  const [min, median, max] = [sorted[0], sorted[Math.floor((sorted.length - 1) / 2)], sorted.at(-1)]
  return min === undefined || median === undefined || max === undefined ? null : { median, min, max }
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

/** Whether every answer was right and none was the service's fault: a failure of it fails the run. */
export function isClean(figures: Figures[]): boolean {
  return figures.every(
    ({ wrong, errors }) => wrong === 0 && !Object.keys(errors).some((code) => /^5\d\d\b/.test(code)),
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
  ['service CPU ms', ({ cpuMs }) => orNone(cpuMs.service)],
  ['Postgres CPU ms', ({ cpuMs }) => orNone(cpuMs.postgres)],
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
