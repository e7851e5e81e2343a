import type { ComparedBaseline, Figures } from '../measure/figures.ts'
import type { Ratio } from '../measure/statistics.ts'

export const NONE = '–'

/** The columns of both tables, on the terminal and on the page: title, and what a scenario shows in it. */
export const COLUMNS: [title: string, show: (figures: Figures) => string][] = [
  ['scenario', ({ scenario }) => scenario],
  ['connections', ({ connections }) => String(connections)],
  ['requests/s', ({ rate, eventsPerRequest }) => short(rate / eventsPerRequest)],
  ['events/s', ({ rate, unit }) => (unit === 'events' ? short(rate) : NONE)],
  ['p50 ms', ({ latencyMs }) => short(latencyMs.p50)],
  ['p95 ms', ({ latencyMs }) => short(latencyMs.p95)],
  ['p99 ms', ({ latencyMs }) => short(latencyMs.p99)],
  ['p99.9 ms', ({ latencyMs }) => short(latencyMs.p999)],
  ['max ms', ({ latencyMs }) => short(latencyMs.max)],
  ['errors', ({ errors }) => String(Object.values(errors).reduce((sum, count) => sum + count, 0))],
  ['CPU ms/request', ({ cpuMs }) => showCpu(cpuMs.service)],
  ['Postgres CPU ms/request', ({ cpuMs }) => showCpu(cpuMs.postgres)],
  ['log, tables bytes/request', ({ written }) => showWritten(written)],
  ['memory MB', ({ memoryMb }) => (memoryMb.length > 0 ? Math.max(...memoryMb).toFixed(0) : NONE)],
  ['cost ratio (min–max)', ({ cost }) => (cost ? showRatio(cost.ratio) : NONE)],
  ['ratio (min–max)', ({ baseline }) => (baseline ? showRatio(baseline.ratio) : NONE)],
  ['baseline', ({ baseline, unit }) => (baseline ? showBaseline(baseline, unit) : NONE)],
]

/** Three significant digits, and all digits of a number from 1,000 on. */
export function short(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString('en')
  if (value >= 100) return value.toFixed(0)
  return value.toFixed(value >= 10 ? 1 : 2)
}

function showCpu(ms: number | null): string {
  return ms === null ? NONE : ms.toFixed(3)
}

function showWritten(written: Figures['written']): string {
  return written ? `${short(written.log)}, ${short(written.tables)}` : NONE
}

export function showRatio({ median, min, max }: Ratio): string {
  return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
}

function showBaseline({ name, compare, value }: ComparedBaseline, unit: Figures['unit']): string {
  if (compare === 'p99') return `${name}: p99 ${short(value)} ms`
  return `${name}: ${short(value)}${unit === 'events' ? ' events' : ''}/s`
}

/** What went wrong or was special in a scenario, a sentence each. */
export function remarksOf({ errors, wrong, notes }: Figures): string[] {
  const failures = Object.entries(errors).map(([code, count]) => `${count} × ${code}`)
  return [...failures, ...(wrong > 0 ? [`${wrong} wrong answers`] : []), ...notes]
}
