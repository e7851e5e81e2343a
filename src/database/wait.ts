import { setTimeout as sleep } from 'node:timers/promises'
import { type Executor, ping } from './connect.ts'
import { codeOf, isUnavailable } from './faults.ts'

const PATIENCE_MS = 30_000
const RETRY_MS = 500
const SAY_EVERY_MS = 5_000

interface Options {
  signal: AbortSignal
  say(text: string): void
  patienceMs?: number
}

/** Faults that do not pass by themselves fail at once. @throws the database's error, or the signal's abort */
export async function waitForDatabase(
  db: Executor,
  { signal, say, patienceMs = PATIENCE_MS }: Options,
): Promise<void> {
  const deadline = performance.now() + patienceMs
  let saidAt = Number.NEGATIVE_INFINITY
  for (;;) {
    try {
      return await ping(db)
    } catch (error) {
      if (!isAway(error) || performance.now() >= deadline) throw error
      if (performance.now() - saidAt >= SAY_EVERY_MS) {
        saidAt = performance.now()
        say(`Waiting for the database, which cannot be reached: ${reasonOf(error)}`)
      }
    }
    await sleep(RETRY_MS, undefined, { signal })
  }
}

/** A Unix socket that is not there yet has a code of its own. */
function isAway(error: unknown): boolean {
  return isUnavailable(error) || codeOf(error) === 'ENOENT'
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message || (codeOf(error) ?? error.name) : String(error)
}
