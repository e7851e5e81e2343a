import type { Operation, Part } from '../../scripts/fault-test/checker/history.ts'
import type { Outcome } from '../../scripts/fault-test/checker/seen.ts'

/** Histories that are written down by hand. */

export type Planted = Record<string, Operation[]>

/** An operation from `begin` on for one millisecond, or for as long as it is given. */
export function operation(begin: number, parts: Part[], seen: Partial<Operation> = {}): Operation {
  const status = seen.outcome === 'unknown' ? 503 : 200
  const rest = { client: 'one', what: 'any', outcome: 'ok' as Outcome, code: '', status }
  return { ...rest, begin, end: begin + 1, parts, ...seen }
}

export const refused = (code: string) => ({ outcome: 'refused', code }) as const
export const LOST = { outcome: 'unknown' } as const
