import { availableParallelism } from 'node:os'
import { createPasswordHasher, type PasswordHasher } from '../crypto/password.ts'
import { overloaded } from '../errors.ts'
import { createFairQueue } from './fair-queue.ts'

/** For whom a password is hashed. */
export interface Turn {
  /** The network of the client, or its device if that is known for the member. They take turns. */
  networkOrDevice: string
  /** Whether network or device are known for the member. Half of the hashing is kept for these. */
  isKnown: boolean
}

/** Hashes passwords, a bounded number at a time, in a fair order. */
export interface LimitedHasher {
  /** A hasher for one client. Its functions throw Problem overloaded if the queue has no place for it. */
  inTurn(turn: Turn): PasswordHasher
  /**
   * Refuses a network that has used up its share of the queue, before it is looked up whether it is known.
   * @throws Problem overloaded
   */
  requireShare(network: string): void
  /** Refuses a client for which the queue has no place, before anything is counted. @throws Problem overloaded */
  requirePlace(turn: Turn): void
  /** The number of passwords that wait. */
  readonly waiting: number
}

interface Waiting {
  enter(): void
  fail(error: unknown): void
}

/**
 * Hashes at most `concurrency` passwords at a time, since each one takes a core and one of libuv's threads. The
 * `bounds` are of the passwords that wait, known or unknown: clients do not wait for the end of a long queue.
 */
export async function createLimitedHasher(
  concurrency = availableParallelism(),
  bounds = { max: 128 * concurrency, maxPerWiderNetwork: 32 * concurrency },
): Promise<LimitedHasher> {
  const hasher = await createPasswordHasher()
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

  async function run<Result>(turn: Turn, work: () => Promise<Result>): Promise<Result> {
    if (taken < concurrency) taken += 1
    else {
      await new Promise<void>((enter, fail) => {
        queueOf(turn).add(turn.networkOrDevice, { enter, fail })?.fail(overloaded(TOO_MANY_SIGN_INS))
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
  }

  return {
    inTurn: (turn) => ({
      hash: (password) => run(turn, () => hasher.hash(password)),
      verify: (phc, password) => run(turn, () => hasher.verify(phc, password)),
      estimate: (password, hints) => run(turn, () => hasher.estimate(password, hints)),
    }),
    requireShare(network) {
      if ([known, unknown].some((queue) => queue.refusesShare(network))) throw overloaded(TOO_MANY_SIGN_INS)
    },
    requirePlace(turn) {
      const isFree = taken < concurrency
      if (!isFree && queueOf(turn).refuses(turn.networkOrDevice)) throw overloaded(TOO_MANY_SIGN_INS)
    },
    get waiting() {
      return known.size + unknown.size
    },
  }
}

const TOO_MANY_SIGN_INS = 'Too many sign-ins at once; try again in a moment.'
