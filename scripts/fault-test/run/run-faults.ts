import { setTimeout as sleep } from 'node:timers/promises'
import { check } from '../checker/check.ts'
import type { Latest } from '../checker/search.ts'
import { startClients } from '../clients/start-clients.ts'
import type { Fault } from '../faults/fault.ts'
import { createRandom } from '../random.ts'
import type { Site } from '../target/site.ts'
import { disturb, type RunOptions } from './disturb.ts'
import { countOutcomes, type Done, findBrokenLimits, type Result, withRecovery } from './report.ts'

const CALM_MS = 3_000
/** Requests and statements end within 10 s. */
const LATE_MS = 30_000

export async function runFaults<Target extends Site>(
  target: Target,
  faults: Record<string, Fault<Target>>,
  options: RunOptions,
  cleanup: AsyncDisposableStack,
): Promise<Result> {
  const random = createRandom(options.seed)
  const ended = new AbortController()
  cleanup.defer(() => ended.abort())
  const { notes, ...clients } = startClients(target, random.of('clients'), cleanup)
  const { history } = notes
  const begunAt = performance.now()
  await sleep(CALM_MS)
  const signal = AbortSignal.any([options.signal, ended.signal])
  const disturbing = disturb(target, faults, random, { ...options, begunAt, signal })
  await Promise.race([disturbing, clients.working])
  const done = await disturbing
  await sleep(CALM_MS)
  const seconds = (performance.now() - begunAt) / 1000
  await clients.stop()
  const seen = done.map((one) => withRecovery(one, history, target.urls.length))
  const complaints = done.flatMap(({ name, complaints }) => complaints.map((text) => `${name}: ${text}`))
  return {
    seconds,
    outcomes: countOutcomes(history),
    faults: seen,
    brokenLimits: findBrokenLimits(seen, history),
    violations: [...check(notes, latestIn(done)), ...complaints.map((what) => ({ what, operations: [] }))],
  }
}

/** A stopped database carries out received statements when it continues. */
function latestIn(faults: readonly Done[]): Latest {
  return ({ begin, end }) => {
    const ends = faults.filter(({ from, to }) => from < end && to > begin).map(({ to }) => to)
    return LATE_MS + Math.max(end, ...ends)
  }
}
