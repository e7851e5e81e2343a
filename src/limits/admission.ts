import { overloaded } from '../errors.ts'
import { createFairQueue } from './fair-queue.ts'
import { type LimitedHasher, TOO_MANY_SIGN_INS } from './hashing.ts'

/** How many requests pass in one turn of the event loop, so that a flood does not delay other routes. */
const PER_TURN = 4
/** How many requests can wait for their turn: even one connection can send them faster than they pass. */
const MAX_WAITING = 1_000
const MAX_WAITING_PER_SITE = 250

/** Admits sign-ins, before their bodies are read. */
export interface Admission {
  /**
   * Waits for the network's turn. Refuses a network that has all its places in the queue for hashing; not a browser
   * that says that it is known, since others of its network must not keep it out.
   * @throws Problem overloaded
   */
  enter(client: { network: string; hasDevice: boolean }): Promise<void>
}

interface Waiting {
  pass(): void
  fail(error: unknown): void
}

export function createAdmission(hasher: Pick<LimitedHasher, 'refuses'>): Admission {
  const queue = createFairQueue<Waiting>({ max: MAX_WAITING, maxPerSite: MAX_WAITING_PER_SITE })

  function turn(): void {
    for (let passed = 0; passed < PER_TURN; passed += 1) queue.take()?.pass()
    if (queue.size > 0) setImmediate(turn)
  }

  return {
    async enter({ network, hasDevice }) {
      await new Promise<void>((pass, fail) => {
        if (queue.size === 0) setImmediate(turn)
        queue.add(network, { pass, fail })?.fail(overloaded())
      })
      const isFull = [true, false].some((isKnown) => hasher.refuses({ subject: network, isKnown }))
      if (isFull && !hasDevice) throw overloaded(TOO_MANY_SIGN_INS)
    },
  }
}
