import type { Notes } from '../clients/perform.ts'
import type { Done } from './disturb.ts'

export interface Disturbed {
  name: string
  from: number
  to: number
  /** From when it was undone, and no other lasted, until a change was acknowledged on each way. Null if none was. */
  backMs: number | null
  /** The longest time without an acknowledged change, from its begin until all was as before and one was. */
  longestGapMs: number
}

export function withRecovery(faults: readonly Done[], { writes }: Notes, ways: number): Disturbed[] {
  return faults.map(({ name, from, to, undoneAt }) => {
    const calmAt = endOf(undoneAt, faults)
    const backs = Array.from({ length: ways }, (_, way) =>
      writes.find((one) => one.way === way && one.at > calmAt),
    )
    const backMs = Math.max(...backs.map((back) => (back ? back.at : Number.POSITIVE_INFINITY) - calmAt))
    const last = writes.find(({ at }) => at > to)?.at ?? to
    const moments = [from, ...writes.map(({ at }) => at).filter((at) => at > from && at < last), last]
    const gaps = moments.slice(1).map((at, index) => at - (moments[index] ?? at))
    return {
      name,
      from,
      to,
      backMs: Number.isFinite(backMs) ? backMs : null,
      longestGapMs: Math.max(...gaps),
    }
  })
}

/** When the last of the faults ends that overlap each other, of which one ends now. */
function endOf(at: number, faults: readonly Done[]): number {
  const next = faults.find(({ from, undoneAt }) => from <= at && undoneAt > at)
  return next ? endOf(next.undoneAt, faults) : at
}
