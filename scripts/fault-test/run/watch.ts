import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { peakMemoryOf } from '../../load-test/process-usage.ts'

/** An instance, as operators know it. */
export interface Watched {
  opsUrl: string
  /** Whether it should answer. */
  isUp(): boolean
  processes(): number[]
}

/** What operators would see: whether each instance says that it lives, what its processes take, and what waits in it. */
export interface Watch {
  /** The longest answer of /livez of an instance that should answer, in milliseconds. */
  slowestLivezMs: number
  livezFailures: number
  /** Of one process. */
  peakMemoryBytes: number
  /** Of one instance, in its queues. */
  most: { connectionsAwaited: number; hashesWaiting: number }
}

const QUEUES = {
  connectionsAwaited: /^gatehouse_database_connections_awaited (\d+)$/m,
  hashesWaiting: /^gatehouse_password_hashes_waiting (\d+)$/m,
}

const EACH_MS = 1_000
/** Later than this is no answer. */
const TIMEOUT_MS = 5_000

export function watch(instances: readonly Watched[], ended: AbortSignal): Watch {
  const most = { connectionsAwaited: 0, hashesWaiting: 0 }
  const seen: Watch = { slowestLivezMs: 0, livezFailures: 0, peakMemoryBytes: 0, most }
  for (const instance of instances) {
    void look(instance, seen, ended)
    void readQueues(instance, seen, ended)
  }
  return seen
}

async function look(instance: Watched, seen: Watch, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await sleep(EACH_MS)
    if (!instance.isUp()) continue
    for (const pid of instance.processes())
      seen.peakMemoryBytes = Math.max(seen.peakMemoryBytes, peakMemoryOf(pid) ?? 0)
    const sentAt = performance.now()
    const isAlive = (await get(instance, '/livez')) !== null
    const tookMs = performance.now() - sentAt
    // It can have been ended meanwhile.
    if (!instance.isUp()) continue
    seen.slowestLivezMs = Math.max(seen.slowestLivezMs, tookMs)
    if (!isAlive) seen.livezFailures += 1
  }
}

async function readQueues(instance: Watched, { most }: Watch, ended: AbortSignal): Promise<void> {
  while (!ended.aborted) {
    await sleep(EACH_MS)
    const metrics = (await get(instance, '/metrics')) ?? ''
    for (const name of ['connectionsAwaited', 'hashesWaiting'] as const) {
      const [, count = 0] = QUEUES[name].exec(metrics) ?? []
      most[name] = Math.max(most[name], Number(count))
    }
  }
}

/** The text of the answer; null without one. */
async function get({ opsUrl }: Watched, path: string): Promise<string | null> {
  try {
    const { statusCode, body } = await request(`${opsUrl}${path}`, {
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
    })
    const text = await body.text()
    return statusCode === 200 ? text : null
  } catch {
    return null
  }
}
