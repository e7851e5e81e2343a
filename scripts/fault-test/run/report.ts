import { toText as operationText, type Violation } from '../checker/history.ts'
import type { Notes } from '../clients/perform.ts'
import type { Done } from './disturb.ts'
import type { Watch } from './watch.ts'

/** The limits that a service keeps in an outage, and the report of a run. */

export interface Disturbed extends Done {
  /** From its end until a change was acknowledged on each way; null if none was. */
  backMs: number | null
  /** The longest time without an acknowledged change, from its begin to the first one after its end. */
  longestGapMs: number
  /** How many requests of clients were not answered, or with 503, while it lasted. */
  unanswered: number
}

export interface Result {
  seconds: number
  operations: number
  outcomes: Record<string, number>
  errors: Record<string, number>
  faults: Disturbed[]
  watch: Watch
  /** What no order explains. */
  violations: Violation[]
  /** What was too slow or too much: on a busy machine, not always the fault of the service. */
  brokenLimits: string[]
}

const BACK_MS = 5_000
const MEMORY_MB = 350
const MOST_NAMED = 5
const MOST_OPERATIONS = 12

export function withRecovery(
  done: Done,
  { writes, history }: Pick<Notes, 'writes' | 'history'>,
  ways: number,
) {
  const { from, to } = done
  const firstOn = (way: number) => writes.find((one) => one.way === way && one.at > to)?.at
  const back = Array.from({ length: ways }, (_, way) => firstOn(way) ?? Number.POSITIVE_INFINITY)
  const backMs = Math.max(...back) - to
  const next = Math.min(...back)
  const last = Number.isFinite(next) ? next : to
  const moments = [from, ...writes.map(({ at }) => at).filter((at) => at > from && at < last), last]
  const gaps = moments.slice(1).map((at, index) => at - (moments[index] ?? at))
  const isIn = ({ outcome, end }: Notes['history'][number]) => outcome === 'unknown' && end > from && end < to
  return {
    ...done,
    backMs: Number.isFinite(backMs) ? backMs : null,
    longestGapMs: Math.max(...gaps),
    unanswered: history.filter(isIn).length,
  }
}

/** One sentence for each limit that was not kept. `timeouts`: what was not answered within 12 s. */
export function findBrokenLimits(
  { faults, watch }: Pick<Result, 'faults' | 'watch'>,
  timeouts: readonly string[],
): string[] {
  const memoryMb = watch.peakMemoryBytes / 2 ** 20
  const late = faults.filter(({ backMs }) => backMs === null || backMs > BACK_MS)
  return [
    ...late.map(({ name, backMs }) => `${name}: back after ${backMs?.toFixed(0) ?? 'more than all'} ms`),
    ...(watch.livezFailures > 0 ? [`/livez did not answer ${watch.livezFailures} times`] : []),
    ...firstOf(timeouts.map((what) => `not answered in time: ${what}`)),
    ...(memoryMb > MEMORY_MB ? [`a process took ${memoryMb.toFixed(0)} MB`] : []),
  ]
}

export function toText(result: Result): string {
  const { seconds, operations, outcomes, errors, faults, watch, violations, brokenLimits } = result
  const found = violations.map(({ what, operations }) =>
    [what, ...operations.slice(-MOST_OPERATIONS).map((one) => `    ${operationText(one)}`)].join('\n'),
  )
  return [
    `${operations} operations in ${seconds.toFixed(0)} s (${(operations / seconds).toFixed(0)} per second): ${list(outcomes)}`,
    `answered 503, or not at all: ${list(errors)}`,
    `memory: ${(watch.peakMemoryBytes / 2 ** 20).toFixed(0)} MB at most in one process`,
    '',
    ...faults.map(faultText),
    '',
    ...brokenLimits.map((limit) => `LIMIT: ${limit}`),
    ...(found.length === 0
      ? ['Some order explains all that clients saw.']
      : ['VIOLATED:', ...firstOf(found)]),
  ].join('\n')
}

function faultText({ name, from, to, backMs, longestGapMs, unanswered }: Disturbed): string {
  const lasted = ((to - from) / 1000).toFixed(1).padStart(5)
  const gap = (longestGapMs / 1000).toFixed(1).padStart(5)
  const back = backMs === null ? 'never' : `${(backMs / 1000).toFixed(1)} s`
  return `  ${name.padEnd(21)} ${lasted} s, ${gap} s without a write, ${String(unanswered).padStart(4)} without an answer, back after ${back}`
}

function firstOf(lines: readonly string[]): string[] {
  const more = lines.length - MOST_NAMED
  return [...lines.slice(0, MOST_NAMED), ...(more > 0 ? [`and ${more} more`] : [])]
}

function list(counts: Record<string, number>): string {
  const all = Object.entries(counts).map(([what, count]) => `${what} ${count}`)
  return all.join(', ') || 'none'
}
