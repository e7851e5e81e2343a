import { alignColumns } from '../kit/report.ts'
import { type Figures, showMb } from './aims.ts'
import type { Seen } from './honest.ts'
import type { Counts } from './requests.ts'

const TOO_BUSY =
  'Honest users failed even without the flood. This machine was too busy, so the figures do not count.'

export function toText(figures: Figures): string {
  const { flood, about, before, during, attack, findings } = figures
  return [
    `${flood}: ${about}`,
    '',
    ...alignColumns(honestRows(figures)),
    ...(before.seen.some(({ share }) => share < 0.98) ? [TOO_BUSY] : []),
    '',
    `attackers: ${showCounts(attack)}`,
    `memory peak: ${showMb(during.memoryMb)} (before the flood ${showMb(before.memoryMb)})`,
    '',
    ...findings.map(({ what, measured, isMet }) => `${isMet ? 'met   ' : 'MISSED'}  ${what}: ${measured}`),
  ].join('\n')
}

function honestRows({ before, during, seconds }: Figures): string[][] {
  const head = ['honest requests', `before, ${seconds.before} s`, 'p50 ms', 'p99 ms']
  const headDuring = [`flood, ${seconds.during} s`, 'p50 ms', 'p99 ms', 'failures']
  const rows = during.seen.map((now, n) => {
    const was = before.seen[n]
    return [now.kind, ...(was ? showSeen(was) : []), ...showSeen(now), showCounts(now.errors)]
  })
  return [[...head, ...headDuring], ...rows]
}

function showSeen({ share, succeeded, sent, p50, p99 }: Seen): string[] {
  const latencies = succeeded > 0 ? [p50.toFixed(1), p99.toFixed(1)] : ['–', '–']
  return [`${succeeded}/${sent} ${(share * 100).toFixed(1)}%`, ...latencies]
}

function showCounts(counts: Counts): string {
  return Object.entries(counts)
    .map(([what, count]) => `${what}: ${count.toLocaleString('en')}`)
    .join(', ')
}
