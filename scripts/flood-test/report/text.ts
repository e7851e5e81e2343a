import { alignColumns } from '../../kit/report.ts'
import { showFinding } from '../aims.ts'
import type { Figures } from '../figures.ts'
import type { Seen } from '../honest/kinds.ts'
import type { TableGrowth } from '../target/tables.ts'

const NONE = '–'

/** The figures of one flood for the terminal. */
export function toText(figures: Figures): string {
  const { flood, about, findings, verdicts } = figures
  return [
    `${flood}: ${about}`,
    '',
    ...alignColumns(honestRows(figures)),
    ...idleRemark(figures),
    '',
    `attackers: ${showCounts(figures.attack)}`,
    `memory peak: ${showMemory(figures.memoryMb.flooded)} (idle ${showMemory(figures.memoryMb.idle)})`,
    `written: ${showTables(figures.tables.flooded)}`,
    `honest load alone: ${showTables(figures.tables.honest)}`,
    ...findings
      .filter(({ isMet }) => isMet === undefined)
      .map(({ what, value, unit }) => `${what}: ${showFinding(value, unit)}`),
    '',
    ...verdicts.map(({ aim, measured, isMet }) => `${isMet ? 'met   ' : 'MISSED'}  ${aim}: ${measured}`),
  ].join('\n')
}

/** Where the machine has no time for the honest load alone, a flood shows nothing. */
function idleRemark({ idle }: Figures): string[] {
  const hasFailed = idle.some(({ share }) => share === null || share < 0.98)
  return hasFailed
    ? ['The honest load alone did not succeed: this machine was too busy for the figures to count.']
    : []
}

function honestRows({ idle, flooded, idleSeconds, floodSeconds }: Figures): string[][] {
  const head = [
    'honest requests',
    `idle, ${idleSeconds} s`,
    'p50 ms',
    'p99 ms',
    `flood, ${floodSeconds} s`,
    'p50 ms',
    'p99 ms',
    'failures',
  ]
  const rows = flooded.map((now) => {
    const before = idle.find(({ kind }) => kind === now.kind)
    return [now.kind, ...(before ? showSeen(before) : []), ...showSeen(now), showFailures(now.errors)]
  })
  return [head, ...rows]
}

function showSeen({ share, succeeded, sent, p50, p99 }: Seen): string[] {
  const [middle, high] = succeeded > 0 ? [p50.toFixed(1), p99.toFixed(1)] : [NONE, NONE]
  return [share === null ? NONE : `${succeeded}/${sent} ${(share * 100).toFixed(1)} %`, middle, high]
}

function showFailures(errors: Record<string, number>): string {
  return Object.entries(errors)
    .map(([code, count]) => `${count} × ${code}`)
    .join(', ')
}

function showCounts(counts: Record<string, number>): string {
  const shown = Object.entries(counts).map(([name, count]) => `${name} ${count.toLocaleString('en')}`)
  return shown.join(', ') || 'none'
}

function showMemory(mb: number | null): string {
  return mb === null ? 'unknown' : `${mb.toFixed(0)} MB`
}

function showTables(growths: TableGrowth[]): string {
  const shown = growths.map(
    ({ table, rows, bytes }) => `${table} ${rows.toLocaleString('en')} rows, ${(bytes / 1024).toFixed(0)} kB`,
  )
  return shown.join('; ') || 'nothing'
}
