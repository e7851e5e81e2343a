import { setTimeout as sleep } from 'node:timers/promises'
import { request } from 'undici'
import { peakMemoryOf } from '../../kit/processes.ts'
import type { Site } from '../target/site.ts'

/** What operators would see of the instances. */
export interface Watch {
  /** How often an instance that should answer did not answer /livez. */
  livezFailures: number
  /** Of one process. */
  peakMemoryBytes: number
}

const EACH_MS = 1_000
/** A later response counts as a failure. */
const TIMEOUT_MS = 5_000

export function watch(instances: Site['instances'], ended: AbortSignal): Watch {
  const seen: Watch = { livezFailures: 0, peakMemoryBytes: 0 }
  for (const instance of instances) void look(instance, seen, ended)
  return seen
}

async function look(
  { opsUrl, isUp, processes }: Site['instances'][number],
  seen: Watch,
  ended: AbortSignal,
): Promise<void> {
  for (; !ended.aborted; await sleep(EACH_MS)) {
    if (!isUp()) continue
    for (const pid of processes())
      seen.peakMemoryBytes = Math.max(seen.peakMemoryBytes, peakMemoryOf(pid) ?? 0)
    const isAlive = await answers(`${opsUrl}/livez`)
    // A fault can have ended it in the meantime.
    if (!isAlive && isUp()) seen.livezFailures += 1
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    await body.dump()
    return statusCode === 200
  } catch {
    return false
  }
}
