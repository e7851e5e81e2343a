import type { Notes } from '../clients/perform.ts'
import { CALM_MS } from '../faults/plan.ts'
import type { Done } from './disturb.ts'

export interface Disturbed {
  name: string
  from: number
  to: number
  /**
   * From when it was undone and no other lasted, and from when the database was back, which another primary can be before, until
   * a change was acknowledged on each way: the longer of both. Null if none was.
   */
  backMs: number | null
  /** How many requests of clients were not answered, or with 503, since it began and before it was over. */
  unanswered: number
  /** The longest time without an acknowledged change, from its begin until all was as before and one was. */
  longestGapMs: number
}

interface Seen {
  writes: Notes['writes']
  /** When clients stopped waiting. */
  unanswered: readonly number[]
  /** On how many ways. */
  ways: number
  databaseWrites: readonly number[]
}

/** A database that acknowledges nothing for so long is away: it is asked four times a second. */
const AWAY_MS = 2_000
/** So long after its return, it is seen: after an attempt that is under way, and the next one (target/watch-database.ts). */
const SEEN_MS = 3_000

export function withRecovery(
  faults: readonly Done[],
  { writes, ways, unanswered, databaseWrites }: Seen,
): Disturbed[] {
  const returns = databaseWrites.filter((at, index) => at - (databaseWrites[index - 1] ?? at) > AWAY_MS)
  return faults.map(({ name, from, to, undoneAt }) => {
    const calmAt = endOf(undoneAt, faults)
    const backFrom = (start: number, way: number) => {
      const back = writes.find((one) => one.way === way && one.at > start)?.at
      if (back === undefined) return Number.POSITIVE_INFINITY
      const seen = databaseWrites.findLast((at) => at < back)
      // Nobody has seen it back yet, so it was not back for longer than that takes.
      const unseen = seen !== undefined && seen < back - SEEN_MS ? [back - SEEN_MS] : []
      return back - Math.max(start, ...returns.filter((at) => at < back), ...unseen)
    }
    const starts = [calmAt, ...returns.filter((at) => at > from && at < to).slice(-1)]
    const backMs = Math.max(
      ...starts.flatMap((start) => Array.from({ length: ways }, (_, way) => backFrom(start, way))),
    )
    const last = writes.find(({ at }) => at > to)?.at ?? to
    const moments = [from, ...writes.map(({ at }) => at).filter((at) => at > from && at < last), last]
    const gaps = moments.slice(1).map((at, index) => at - (moments[index] ?? at))
    return {
      name,
      from,
      to,
      unanswered: unanswered.filter((at) => at > from && at < to).length,
      backMs: Number.isFinite(backMs) ? backMs : null,
      longestGapMs: Math.max(...gaps),
    }
  })
}

/** When the last of the faults ends that overlap each other, or leave no time between them, of which one ends now. */
function endOf(at: number, faults: readonly Done[]): number {
  const next = faults.find(({ from, undoneAt }) => from < at + CALM_MS.least && undoneAt > at)
  return next ? endOf(next.undoneAt, faults) : at
}
