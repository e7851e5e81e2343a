import { setTimeout as sleep } from 'node:timers/promises'
import { isUnanswered, SilentDatabaseError } from './faults.ts'

/**
 * Notices that the database has fallen silent. What waits for it then fails, and what is asked of it fails at once, until a
 * probe is answered. Otherwise each statement of a request would wait for its whole time-out, and the queues behind it too.
 */

/** Between two probes of a silent database. */
const PAUSE_MS = 500

/** Waits for what the database answers. @throws SilentDatabaseError if it answers nobody */
export type AwaitAnswer = <Result>(ask: () => Promise<Result>) => Promise<Result>

interface Options {
  /** Asks the database on another connection, for a short time. */
  probe(): Promise<void>
  /** How long an answer can take before the database is probed. */
  patienceMs: number
}

export function watchForSilence({ probe, patienceMs }: Options): AwaitAnswer {
  const waiting = new Set<(error: Error) => void>()
  let isSilent = false
  let isWatching = false

  async function watch(): Promise<void> {
    if (isWatching) return
    isWatching = true
    // Twice, since the connection of the first probe can be lost while the database is well.
    isSilent = !(await isAnswering()) && !(await isAnswering())
    if (isSilent) for (const fail of waiting) fail(new SilentDatabaseError())
    while (isSilent) {
      await sleep(PAUSE_MS, undefined, { ref: false })
      isSilent = !(await isAnswering())
    }
    isWatching = false
  }

  /** A refusal is an answer. */
  async function isAnswering(): Promise<boolean> {
    return await probe().then(
      () => true,
      (error) => !isUnanswered(error),
    )
  }

  return async (ask) => {
    if (isSilent) throw new SilentDatabaseError()
    const { promise: silence, reject } = Promise.withResolvers<never>()
    const impatience = setTimeout(watch, patienceMs)
    waiting.add(reject)
    try {
      return await Promise.race([ask(), silence])
    } finally {
      clearTimeout(impatience)
      waiting.delete(reject)
    }
  }
}
