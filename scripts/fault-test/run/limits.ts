import { availableParallelism } from 'node:os'
import type { Disturbed } from './recovery.ts'
import type { Watch } from './watch.ts'

/** What is promised of a service in an outage, besides what its clients are told. */

const BACK_MS = 5_000
const LIVEZ_MS = 1_000
const MEMORY_MB = 350
const MOST_NAMED = 5
/** Of one network, which all clients have, beside each hash: of those who are known, and of strangers (`src/limits/hashing.ts`). */
const HASHES = 2 * 32

interface Seen {
  faults: readonly Disturbed[]
  watch: Watch
  /** Processes that answer, of one instance. */
  workers: number
  /** What was not answered within the 10 s that each request has, and two more: of clients, and how many of the crowd. */
  unanswered: { what: readonly string[]; ofCrowd: number }
}

/** One sentence for each that was not kept. */
export function findBrokenLimits({ faults, watch, workers, unanswered }: Seen): string[] {
  const { slowestLivezMs, livezFailures, peakMemoryBytes, most } = watch
  const memoryMb = peakMemoryBytes / 2 ** 20
  const mostHashes = HASHES * Math.max(workers, availableParallelism())
  const late = faults.filter(({ backMs }) => backMs === null || backMs > BACK_MS)
  return [
    ...late.map(({ name, backMs }) => `${name}: back after ${backMs?.toFixed(0) ?? 'more than all'} ms`),
    ...(slowestLivezMs > LIVEZ_MS ? [`/livez answered after ${slowestLivezMs.toFixed(0)} ms`] : []),
    ...(livezFailures > 0 ? [`/livez did not answer ${livezFailures} times`] : []),
    ...unanswered.what.slice(0, MOST_NAMED).map((what) => `not answered in time: ${what}`),
    ...(unanswered.what.length > MOST_NAMED ? [`and ${unanswered.what.length - MOST_NAMED} more`] : []),
    ...(unanswered.ofCrowd > 0 ? [`${unanswered.ofCrowd} that only wait were not answered in time`] : []),
    ...(memoryMb > MEMORY_MB ? [`a process took ${memoryMb.toFixed(0)} MB`] : []),
    ...(most.hashesWaiting > mostHashes ? [`${most.hashesWaiting} sign-ins waited for a hash`] : []),
  ]
}
