import type { Change } from '../judge/comparison.ts'
import { alignColumns } from './align.ts'
import { NONE } from './columns.ts'

const HEAD = ['scenario', 'rate', 'p50', 'p95', 'p99', 'CPU/request', 'rounds differ by', 'remark']

/** The changes since an earlier report, for the terminal. */
export function comparisonText(changes: Change[], at: string): string {
  if (changes.length === 0) return `The report of ${at} has none of these scenarios.`
  const rows = changes.map(({ scenario, rate, p50, p95, p99, cpu, noise, differs }) => [
    scenario,
    ...[rate, p50, p95, p99, cpu].map(showChange),
    noise === null ? NONE : `${(noise * 100).toFixed(0)} %`,
    differs ?? remarkOf(rate, noise),
  ])
  return [
    `Changes since the report of ${at}. The rounds of one run differ by noise alone: a change that is not`,
    'larger than that says nothing.',
    '',
    ...alignColumns([HEAD, ...rows]),
  ].join('\n')
}

function showChange(change: number | null): string {
  if (change === null) return NONE
  return `${change < 0 ? '−' : '+'}${Math.abs(change * 100).toFixed(1)} %`
}

function remarkOf(rate: number | null, noise: number | null): string {
  if (rate === null || noise === null) return ''
  if (Math.abs(rate) <= noise) return 'within the noise'
  return rate > 0 ? 'faster' : 'slower'
}
