import { overloaded } from '../errors.ts'

/** Bounds how much work runs at the same time, and how much waits for it. */
export interface Limiter {
  /**
   * Runs the work once there is a place for it, in the order of arrival.
   * @throws Problem overloaded if `maxWaiting` wait already
   */
  run<Result>(work: () => Promise<Result>): Promise<Result>
  /** How many wait for a place. */
  readonly waiting: number
  /** How many more can begin at once. */
  readonly free: number
  /** How many can run or wait at the same time. */
  readonly capacity: number
  /** Resolves when any or all of what runs now has ended, well or not; at once if nothing runs. */
  ended(which: 'any' | 'all'): Promise<void>
}

interface LimiterOptions {
  concurrency: number
  maxWaiting?: number
  /** What a client reads whose work is refused. */
  refusal?: string
  /** Whether an error means that no work would succeed now: then all that waits fails at once. */
  isOutage?(error: unknown): boolean
}

interface Waiting {
  enter(): void
  fail(error: unknown): void
}

export function createLimiter({
  concurrency,
  maxWaiting = 0,
  refusal,
  isOutage = () => false,
}: LimiterOptions): Limiter {
  const queue: Waiting[] = []
  const underWay = new Set<Promise<unknown>>()
  let taken = 0

  function waitForPlace(): Promise<void> {
    if (queue.length >= maxWaiting) throw overloaded(refusal)
    return new Promise((enter, fail) => queue.push({ enter, fail }))
  }

  /** Hands the place on to the one that waited longest, so a newcomer cannot slip in before. */
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
    get waiting() {
      return queue.length
    },
    get free() {
      return concurrency - taken
    },
    capacity: concurrency + maxWaiting,
    async ended(which) {
      if (underWay.size > 0) await (which === 'any' ? Promise.race(underWay) : Promise.all(underWay))
    },
  }
}
