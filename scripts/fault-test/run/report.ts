import { type Operation, toText as operationText, type Violation } from '../checker/history.ts'

/** A past fault. At `to`, the target had recovered. */
export interface Done {
  name: string
  from: number
  to: number
  complaints: string[]
}

interface Disturbed extends Done {
  /** From its end until each URL acknowledged a change; infinite if one did not. */
  backMs: number
  /** The longest time without an acknowledged change, up to the first one after its end. */
  longestGapMs: number
}

export interface Result {
  seconds: number
  /** Counts of operations: ok, refused, or by status or connection error. */
  outcomes: Record<string, number>
  faults: Disturbed[]
  violations: Violation[]
  /** Slow recoveries and responses, which a busy machine can cause too. */
  brokenLimits: string[]
}

const BACK_MS = 5_000
const MOST_NAMED = 5
const MOST_OPERATIONS = 12

export function withRecovery(done: Done, history: readonly Operation[], ways: number): Disturbed {
  const { from, to } = done
  const writes = history.filter(({ outcome, what }) => outcome === 'ok' && !what.startsWith('GET'))
  const after = writes.filter(({ end }) => end > to).toSorted((one, other) => one.end - other.end)
  const firstOn = (way: number) => after.find((one) => one.way === way)?.end ?? Number.POSITIVE_INFINITY
  const back = Math.max(...Array.from({ length: ways }, (_, way) => firstOn(way)))
  const during = writes.map(({ end }) => end).filter((end) => end > from && end <= to)
  const moments = [from, ...during.toSorted((one, other) => one - other), after[0]?.end ?? to]
  const gaps = moments.slice(1).map((at, index) => at - (moments[index] ?? at))
  return { ...done, backMs: back - to, longestGapMs: Math.max(...gaps) }
}

export function countOutcomes(history: readonly Operation[]): Record<string, number> {
  const kinds = Map.groupBy(history, ({ outcome, status, code }) =>
    outcome === 'unknown' ? String(status || code) : outcome,
  )
  return Object.fromEntries([...kinds].map(([kind, { length }]) => [kind, length]))
}

export function findBrokenLimits(faults: readonly Disturbed[], history: readonly Operation[]): string[] {
  const late = faults.filter(({ backMs }) => backMs > BACK_MS)
  const unanswered = history.filter(({ status, code }) => status === 0 && code === 'timeout')
  return [
    ...late.map(({ name, backMs }) => `${name}: back after ${backMs.toFixed(0)} ms`),
    ...firstOf(unanswered.map((one) => `no response in time: ${operationText(one)}`)),
  ]
}

export function toText({ seconds, outcomes, faults, violations, brokenLimits }: Result): string {
  const found = violations.map(({ what, operations }) =>
    [what, ...operations.slice(-MOST_OPERATIONS).map((one) => `    ${operationText(one)}`)].join('\n'),
  )
  const counts = Object.entries(outcomes).map(([outcome, count]) => `${outcome} ${count}`)
  return [
    `Operations in ${seconds.toFixed(0)} s: ${counts.join(', ')}`,
    '',
    ...faults.map(faultText),
    '',
    ...brokenLimits.map((limit) => `LIMIT: ${limit}`),
    ...(found.length === 0
      ? ['A legal order explains everything that clients saw.']
      : ['VIOLATED:', ...firstOf(found)]),
  ].join('\n')
}

function faultText({ name, from, to, backMs, longestGapMs }: Disturbed): string {
  const [lasted, gap, back] = [to - from, longestGapMs, backMs].map((ms) =>
    (ms / 1000).toFixed(1).padStart(5),
  )
  return `  ${name.padEnd(21)} ${lasted} s, ${gap} s without a write, back after ${back} s`
}

function firstOf(lines: readonly string[]): string[] {
  const more = lines.length - MOST_NAMED
  return [...lines.slice(0, MOST_NAMED), ...(more > 0 ? [`and ${more} more`] : [])]
}
