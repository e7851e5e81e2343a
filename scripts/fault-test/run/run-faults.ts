import { setTimeout as sleep } from 'node:timers/promises'
import { check, type Violation } from '../checker/check.ts'
import { findDisordered, findTakenBack } from '../checker/feed.ts'
import type { Latest } from '../checker/search.ts'
import { startCrowd } from '../clients/crowd.ts'
import type { CrowdSeen } from '../clients/crowd-process.ts'
import { type Clients, startClients } from '../clients/start-clients.ts'
import { createRandom } from '../random.ts'
import { type Done, disturb } from './disturb.ts'
import { findBrokenLimits } from './limits.ts'
import type { Stage } from './open-stage.ts'
import { type Disturbed, withRecovery } from './recovery.ts'
import { type Watch, watch } from './watch.ts'

/** One run: clients work, faults come and go, and the checker judges what the clients saw. */

export interface RunOptions {
  seed: string
  /** How long faults come and go. One comes, at least. */
  seconds: number
  /** Which of those of the stage; each comes before one comes twice. */
  faults: readonly string[]
  /** Whether a second series of faults goes on beside the first. */
  isOverlapping: boolean
  /** Clients that only wait, 500 by default. */
  crowd?: number
  signal: AbortSignal
  say(line: string): void
}

export interface Result {
  seconds: number
  operations: number
  outcomes: { [outcome: string]: number }
  errors: { [what: string]: number }
  faults: Disturbed[]
  watch: Watch
  crowd: CrowdSeen
  /** What no order explains. */
  violations: Violation[]
  /** What was too slow or too much: on a busy machine, not always the fault of the service. */
  brokenLimits: string[]
}

const CALM_MS = 5_000
const CROWD = 500
/**
 * Of 500, 300 sign in at once, through two proxies in turn, so that half of them come to two instances: more than each process lets
 * wait for a hash.
 */
const RUSHING_SHARE = 0.6
/** A request ends within 10 s, and a statement too. */
const LATE_MS = 30_000

export async function runFaults(
  options: RunOptions,
  stage: Stage,
  cleanup: AsyncDisposableStack,
): Promise<Result> {
  const { site, watched, workers, databaseWrites } = stage
  const random = createRandom(options.seed)
  const clients = await startClients(site, random.of('clients'), cleanup)
  const count = options.crowd ?? CROWD
  const rushing = Math.ceil(count * RUSHING_SHARE)
  const crowd = await startCrowd({ urls: site.urls, ...site.crowd, count, rushing }, cleanup)
  const ended = new AbortController()
  cleanup.defer(() => ended.abort())
  const seen = watch(watched, ended.signal)
  const begunAt = performance.now()
  await sleep(CALM_MS)
  const disturbing = disturb(stage, random, {
    ...options,
    begunAt,
    signal: AbortSignal.any([options.signal, ended.signal]),
  })
  // Clients end only if one of them fails.
  await Promise.race([disturbing, clients.working])
  const done = await disturbing
  await sleep(CALM_MS)
  const workedMs = performance.now() - begunAt
  const waited = await crowd.stop()
  await clients.stop()
  const unexplained = [
    ...check(clients.notes.history, latestIn(done)),
    ...findDisordered(clients.notes),
    ...findTakenBack(clients.notes),
  ]
  ended.abort()
  const { history, writes } = clients.notes
  const unanswered = history.flatMap(({ outcome, end }) => (outcome === 'unknown' ? [end] : []))
  const faults = withRecovery(done, { writes, ways: site.urls.length, unanswered, databaseWrites })
  return {
    seconds: workedMs / 1000,
    ...countsOf(clients),
    faults,
    watch: seen,
    crowd: waited,
    brokenLimits: findBrokenLimits({
      ...{ faults, watch: seen, workers },
      unanswered: { what: findUnanswered(clients, begunAt), ofCrowd: waited.errors['timeout'] ?? 0 },
    }),
    violations: [
      ...unexplained,
      ...[
        ...done.flatMap(({ name, complaints }) => complaints.map((text) => `${name}: ${text}`)),
        ...waited.violations,
      ].map((what) => ({ what, operations: [] })),
    ],
  }
}

/** What a database has before it stops happens when it goes on. */
function latestIn(faults: readonly Done[]): Latest {
  return ({ begin, end }) => {
    const ends = faults.filter(({ from, to }) => from < end && to > begin).map(({ to }) => to)
    return LATE_MS + Math.max(end, ...ends)
  }
}

function countsOf({
  notes: { history, errors },
}: Clients): Pick<Result, 'operations' | 'outcomes' | 'errors'> {
  const outcomes: Result['outcomes'] = {}
  for (const { outcome } of history) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1
  return { operations: history.length, outcomes, errors: Object.fromEntries(errors) }
}

function findUnanswered({ notes: { history } }: Clients, begunAt: number): string[] {
  return history
    .filter(({ status, code }) => status === 0 && code === 'timeout')
    .map(({ what, begin }) => `${what} of ${((begin - begunAt) / 1000).toFixed(1)} s`)
}
