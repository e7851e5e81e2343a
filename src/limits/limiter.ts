import { overloaded } from '../errors.ts'

/** Bounds how many calls run at the same time, and how many wait. */
export interface Limiter {
  /**
   * Runs the work when a place is free, in order of arrival.
   * @throws Problem overloaded if `maxWaiting` calls wait already
   */
  run<Result>(work: () => Promise<Result>): Promise<Result>
  /** The number of free places. */
  readonly free: number
  /** Resolves when any or all present calls, waiting ones included, have settled; at once without calls. */
  ended(which: 'any' | 'all'): Promise<void>
}

interface LimiterOptions {
  concurrency: number
  maxWaiting?: number
  /** Whether no work can succeed now. Then all calls that wait fail at once. */
  isOutage?(error: unknown): boolean
}

interface Waiting {
  enter(): void
  fail(error: unknown): void
}

export function createLimiter({
  concurrency,
  maxWaiting = 0,
  isOutage = () => false,
}: LimiterOptions): Limiter {
  const queue: Waiting[] = []
  const underWay = new Set<Promise<unknown>>()
  let taken = 0

  function waitForPlace(): Promise<void> {
    if (queue.length >= maxWaiting) throw overloaded()
    return new Promise((enter, fail) => queue.push({ enter, fail }))
  }

  /** Passes the place to the call that has waited longest, so that a new call cannot overtake it. */
  function leavePlace(): void {
    const next = queue.shift()
    if (next) next.enter()
    else taken -= 1
  }

  async function runInPlace<Result>(work: () => Promise<Result>): Promise<Result> {
    if (taken < concurrency) taken += 1
    else await waitForPlace()
    try {
      return await work()
    } catch (error) {
      if (isOutage(error)) for (const { fail } of queue.splice(0)) fail(error)
      throw error
    } finally {
      leavePlace()
    }
  }

  return {
    run(work) {
      const ending = runInPlace(work)
      const settled = ending.catch(() => {}).finally(() => underWay.delete(settled))
      underWay.add(settled)
      return ending
    },
    get free() {
      return concurrency - taken
    },
    async ended(which) {
      if (underWay.size > 0) await (which === 'any' ? Promise.race(underWay) : Promise.all(underWay))
    },
  }
}
