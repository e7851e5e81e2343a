import { overloaded } from '../errors.ts'
import { TOO_MANY_SIGN_INS } from './hashing.ts'
import { createLimiter } from './limiter.ts'

/** How many requests pass in one turn of the event loop, so that a flood does not delay other routes. */
const PER_TURN = 4
/** How many requests can wait for their turn: even one connection can send them faster than they pass. */
const MAX_WAITING = 1_000

/**
 * Admits as many sign-ins as can be hashed soon. A flood of sign-ins is refused here, before it costs a hash,
 * and mostly before its bodies are read.
 */
export interface Admission {
  /**
   * Call it before the body is read. The request waits for its turn, and is refused if all places are taken.
   * @throws Problem overloaded
   */
  enter(): Promise<void>
  /**
   * Holds a place during an attempt. Call it after the body is read, so that slow senders cannot occupy the
   * places.
   * @throws Problem overloaded
   */
  attempt<Result>(work: () => Promise<Result>): Promise<Result>
}

/** `places` is how many attempts can be in progress: as many as will be hashed soon. */
export function createAdmission(places: number): Admission {
  const limiter = createLimiter({ concurrency: places, refusal: TOO_MANY_SIGN_INS })
  const queue: (() => void)[] = []

  function turn(): void {
    for (const pass of queue.splice(0, PER_TURN)) pass()
    if (queue.length > 0) setImmediate(turn)
  }

  return {
    async enter() {
      if (queue.length >= MAX_WAITING) throw overloaded('Too many requests at once; try again.')
      await new Promise<void>((pass) => {
        if (queue.push(pass) === 1) setImmediate(turn)
      })
      if (limiter.free === 0) throw overloaded(TOO_MANY_SIGN_INS)
    },
    attempt: limiter.run,
  }
}
