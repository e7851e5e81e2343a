import { setTimeout as sleep } from 'node:timers/promises'
import { isUnanswered, SilentDatabaseError } from './faults.ts'

/** While the database is silent, statements fail at once. Else each would wait for its whole timeout. */

const PAUSE_MS = 500

/** @throws SilentDatabaseError if no connection gets an answer */
export type AwaitAnswer = <Result>(ask: () => Promise<Result>) => Promise<Result>

interface Options {
  probe(): Promise<void>
  patienceMs: number
}

export function watchForSilence({ probe, patienceMs }: Options): AwaitAnswer {
  const waiting = new Set<(error: Error) => void>()
  let isSilent = false
  let isWatching = false

  async function watch(): Promise<void> {
    if (isWatching) return
    isWatching = true
    // Twice: the connection of the first probe can be lost while the database is well.
    isSilent = !(await isAnswering()) && !(await isAnswering())
    if (isSilent) for (const fail of waiting) fail(new SilentDatabaseError())
    while (isSilent) {
      await sleep(PAUSE_MS, undefined, { ref: false })
      isSilent = !(await isAnswering())
    }
    isWatching = false
  }

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
