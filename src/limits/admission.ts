import { overloaded } from '../errors.ts'
import { createFairQueue } from './fair-queue.ts'

/** For whom work is done. */
export interface Turn {
  /** Of the client. Networks take turns. */
  network: string
  /** The device of the client, if it is known for the member. The devices of one network take turns. */
  device?: string | undefined
  /** Whether network or device are known for the member. Half of the work is kept for these. */
  isKnown: boolean
}

/** Admits costly work, a bounded number of calls at a time, in a fair order. */
export interface Admission {
  /** Runs the work in its turn. @throws Problem overloaded if the queue has no place for it */
  run<Result>(turn: Turn, work: () => Promise<Result>): Promise<Result>
  /**
   * Refuses a network that has used up its share of the queue, before it is looked up whether it is known.
   * @throws Problem overloaded
   */
  requireShare(network: string): void
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
  refusal: string
}

export function createAdmission({ places, bounds, refusal }: Options): Admission {
  const known = createFairQueue<Waiting>(bounds)
  const unknown = createFairQueue<Waiting>(bounds)
  const queueOf = ({ isKnown }: Turn) => (isKnown ? known : unknown)
  let taken = 0
  let lastWasKnown = false

  /** Strictly in turn, so that each half gets its half, and more if the other does not need it. */
  function takeNext(): Waiting | undefined {
    lastWasKnown = !lastWasKnown
    return lastWasKnown ? (known.take() ?? unknown.take()) : (unknown.take() ?? known.take())
  }

  return {
    async run(turn, work) {
      if (taken < places) taken += 1
      else {
        await new Promise<void>((enter, fail) => {
          queueOf(turn).add(turn, { enter, fail })?.fail(overloaded(refusal))
        })
      }
      try {
        return await work()
      } finally {
        // The place passes to the next, so that a new call cannot overtake it.
        const next = takeNext()
        if (next) next.enter()
        else taken -= 1
      }
    },
    requireShare(network) {
      if ([known, unknown].some((queue) => queue.refusesShare({ network }))) throw overloaded(refusal)
    },
    requirePlace(turn) {
      if (taken >= places && queueOf(turn).refuses(turn)) throw overloaded(refusal)
    },
    get waiting() {
      return known.size + unknown.size
    },
  }
}
