import { setTimeout as sleep } from 'node:timers/promises'
import { check } from '../checker/check.ts'
import type { Latest } from '../checker/search.ts'
import { startClients } from '../clients/start-clients.ts'
import type { Fault, Lasting } from '../faults/fault.ts'
import { createRandom } from '../random.ts'
import type { Site } from '../target/site.ts'
import { type Done, disturb } from './disturb.ts'
import { findBrokenLimits, type Result, withRecovery } from './report.ts'
import { watch } from './watch.ts'

/** One run: clients work, faults come and go, and the checker judges what the clients saw. */

export interface RunOptions {
  seed: string
  /** How long faults come and go. Each comes once at least. */
  seconds: number
  /** How long each of them lasts. */
  lasting: Lasting
  signal: AbortSignal
  say(line: string): void
}

const CALM_MS = 3_000
/** A request ends within 10 s, and a statement too. */
const LATE_MS = 30_000

export async function runFaults<Target extends Site>(
  target: Target,
  faults: Record<string, Fault<Target>>,
  options: RunOptions,
  cleanup: AsyncDisposableStack,
): Promise<Result> {
  const random = createRandom(options.seed)
  const { notes, ...clients } = await startClients(target, random.of('clients'), cleanup)
  const ended = new AbortController()
  cleanup.defer(() => ended.abort())
  const watched = watch(target.instances, ended.signal)
  const begunAt = performance.now()
  await sleep(CALM_MS)
  const signal = AbortSignal.any([options.signal, ended.signal])
  const disturbing = disturb(target, faults, random, { ...options, begunAt, signal })
  // Clients end only if one of them fails.
  await Promise.race([disturbing, clients.working])
  const done = await disturbing
  await sleep(CALM_MS)
  const seconds = (performance.now() - begunAt) / 1000
  await clients.stop()
  ended.abort()
  const faultsSeen = done.map((one) => withRecovery(one, notes, target.urls.length))
  const seen = { faults: faultsSeen, watch: watched }
  const timeouts = notes.history
    .filter(({ status, code }) => status === 0 && code === 'timeout')
    .map(({ what, begin }) => `${what} of ${((begin - begunAt) / 1000).toFixed(1)} s`)
  const complaints = done.flatMap(({ name, complaints }) => complaints.map((text) => `${name}: ${text}`))
  const outcomes = Map.groupBy(notes.history, ({ outcome }) => outcome)
  return {
    ...seen,
    seconds,
    operations: notes.history.length,
    outcomes: Object.fromEntries([...outcomes].map(([outcome, { length }]) => [outcome, length])),
    errors: Object.fromEntries(notes.errors),
    brokenLimits: findBrokenLimits(seen, timeouts),
    violations: [...check(notes, latestIn(done)), ...complaints.map((what) => ({ what, operations: [] }))],
  }
}

/** What a database has received before it stops happens when it continues. */
function latestIn(faults: readonly Done[]): Latest {
  return ({ begin, end }) => {
    const ends = faults.filter(({ from, to }) => from < end && to > begin).map(({ to }) => to)
    return LATE_MS + Math.max(end, ...ends)
  }
}
