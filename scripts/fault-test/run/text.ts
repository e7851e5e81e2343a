import { toText as operationText } from '../checker/check.ts'
import type { Disturbed } from './recovery.ts'
import type { Result } from './run-faults.ts'

const MOST_VIOLATIONS = 5
const MOST_OPERATIONS = 12

export function toText(result: Result): string {
  const { seconds, operations, outcomes, errors, crowd, faults, watch, violations, brokenLimits } = result
  const { connectionsAwaited, hashesWaiting } = watch.most
  const lines = [
    `${operations} operations in ${seconds.toFixed(0)} s (${(operations / seconds).toFixed(0)} a second): ${list(outcomes)}`,
    `answered 503, or not at all: ${list(errors)}`,
    `/livez: the slowest answer after ${watch.slowestLivezMs.toFixed(0)} ms, ${watch.livezFailures} without`,
    `beside them, those that only wait: answered ${crowd.succeeded}, ${list(crowd.errors)}`,
    `waited in an instance at most: ${connectionsAwaited} for a connection, ${hashesWaiting} for a hash`,
    `memory: ${(watch.peakMemoryBytes / 2 ** 20).toFixed(0)} MB at most in one process`,
    '',
    ...faults.toSorted((one, other) => one.from - other.from).map(faultText),
    '',
    ...brokenLimits.map((limit) => `LIMIT: ${limit}`),
    ...(violations.length === 0 ? ['Some order explains all that clients saw.'] : ['VIOLATED:']),
  ]
  for (const { what, operations } of violations.slice(0, MOST_VIOLATIONS))
    lines.push(what, ...operations.slice(-MOST_OPERATIONS).map((one) => `    ${operationText(one)}`))
  if (violations.length > MOST_VIOLATIONS) lines.push(`and ${violations.length - MOST_VIOLATIONS} more`)
  return lines.join('\n')
}

function faultText({ name, from, to, backMs, longestGapMs, unanswered }: Disturbed): string {
  const lasted = ((to - from) / 1000).toFixed(1).padStart(5)
  const gap = (longestGapMs / 1000).toFixed(1).padStart(5)
  const back = backMs === null ? 'never' : `${(backMs / 1000).toFixed(1)} s`
  return `  ${name.padEnd(21)} ${lasted} s, ${gap} s without a write, ${String(unanswered).padStart(4)} without an answer, back after ${back}`
}

function list(counts: { [what: string]: number }): string {
  const all = Object.entries(counts).map(([what, count]) => `${what} ${count}`)
  return all.join(', ') || 'none'
}
