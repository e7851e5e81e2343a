import { createFairQueue, type FairQueue } from './fair-queue.ts'

/** For whom work is done. */
export interface Turn {
  /** Of the client. Networks take turns. */
  network: string
  /** The device of the client, if it is known for the member. The devices of one network take turns. */
  device?: string | undefined
  /** Whether network or device are known. Half of the work is kept for these. */
  isKnown: boolean
}

interface TurnQueue<Entry> extends Pick<FairQueue<Entry>, 'size' | 'take'> {
  /** Adds an entry. If its half is full, removes and returns one of it: see `FairQueue`. */
  add(turn: Turn, entry: Entry): Entry | undefined
  /** Whether `add` would return its own entry. */
  refuses(turn: Turn): boolean
  /** Whether a network, known or not, has used up its share. */
  refusesShare(network: string): boolean
  /** Takes the next entry of those who are known. */
  takeKnown(): Entry | undefined
}

/** A queue of two halves, each in a fair order: those who are known, and strangers. `bounds` are those of each. */
export function createTurnQueue<Entry>(bounds: {
  max: number
  maxPerWiderNetwork: number
}): TurnQueue<Entry> {
  const known = createFairQueue<Entry>(bounds)
  const strangers = createFairQueue<Entry>(bounds)
  const halfOf = ({ isKnown }: Turn) => (isKnown ? known : strangers)
  let lastWasKnown = false
  return {
    get size() {
      return known.size + strangers.size
    },
    add: (turn, entry) => halfOf(turn).add(turn, entry),
    refuses: (turn) => halfOf(turn).refuses(turn),
    refusesShare: (network) => [known, strangers].some((half) => half.refusesShare({ network })),
    /** Strictly in turn, so that each half gets its half, and more if the other does not need it. */
    take() {
      lastWasKnown = !lastWasKnown
      return lastWasKnown ? (known.take() ?? strangers.take()) : (strangers.take() ?? known.take())
    },
    takeKnown: known.take,
  }
}
