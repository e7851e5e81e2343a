import { createTurnQueue, type Turn } from '../edge/turn-queue.ts'
import { overloaded } from '../errors.ts'

/** Admits costly work, a bounded number of calls at a time, in a fair order. */
export interface Admission {
  /** Runs the work in its turn. @throws Problem overloaded if the queue has no place for it */
  run<Result>(turn: Turn, work: () => Promise<Result>): Promise<Result>
  /**
   * Refuses a network that has used up its share of the queue, before it is looked up whether it is known.
   * @throws Problem overloaded
   */
  requireShare(network: string): void
  /** Whether the queue has a place for a client. */
  hasPlace(turn: Turn): boolean
  /** Refuses a client for which the queue has no place, before anything is counted. @throws Problem overloaded */
  requirePlace(turn: Turn): void
  /** The number of calls that wait. */
  readonly waiting: number
}

interface Waiting {
  enter(): void
  fail(error: unknown): void
}

interface Options {
  /** The calls that run at a time. */
  places: number
  /** The calls that can wait, known or unknown: clients do not wait for the end of a long queue. */
  bounds: { max: number; maxPerWiderNetwork: number }
  /** The detail of the problem when work is refused. */
  refusal?: string
  /** Whether no work can succeed now. Then all calls that wait fail at once. */
  isOutage?(error: unknown): boolean
}

export function createAdmission({ places, bounds, refusal, isOutage = () => false }: Options): Admission {
  const queue = createTurnQueue<Waiting>(bounds)
  let taken = 0

  const hasPlace = (turn: Turn) => taken < places || !queue.refuses(turn)

  return {
    hasPlace,
    async run(turn, work) {
      if (taken < places) taken += 1
      else {
        await new Promise<void>((enter, fail) => {
          queue.add(turn, { enter, fail })?.fail(overloaded(refusal))
        })
      }
      try {
        return await work()
      } catch (error) {
        if (isOutage(error)) for (let next = queue.take(); next; next = queue.take()) next.fail(error)
        throw error
      } finally {
        // The place passes to the next, so that a new call cannot overtake it.
        const next = queue.take()
        if (next) next.enter()
        else taken -= 1
      }
    },
    requireShare(network) {
      if (queue.refusesShare(network)) throw overloaded(refusal)
    },
    requirePlace(turn) {
      if (!hasPlace(turn)) throw overloaded(refusal)
    },
    get waiting() {
      return queue.size
    },
  }
}
