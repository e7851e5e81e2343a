import { overloaded } from '../errors.ts'
import { TOO_MANY_SIGN_INS } from './hashing.ts'
import { createLimiter } from './limiter.ts'

/**
 * Who may go on to sign in while others wait: the one place where a flood of sign-ins is turned away, before it
 * costs anything.
 */
export interface Admission {
  /**
   * For a request of which nothing is read yet. It waits for its turn, and is refused if all places are taken.
   * @throws Problem overloaded
   */
  enter(): Promise<void>
  /**
   * Holds a place while an attempt is made. A request whose body is still on its way holds none, so a slow
   * sender keeps nobody out.
   * @throws Problem overloaded
   */
  attempt<Result>(work: () => Promise<Result>): Promise<Result>
}

interface AdmissionOptions {
  /** How many attempts can be under way: as many as will be hashed soon. */
  places: number
  /** How many requests pass in one turn of the event loop, so that a crowd does not hold up other routes. */
  perTurn?: number
  /** How many can wait for their turn: one connection can bring them faster than they pass. */
  maxWaiting?: number
}

export function createAdmission({ places, perTurn = 4, maxWaiting = 1_000 }: AdmissionOptions): Admission {
  const limiter = createLimiter({ concurrency: places, refusal: TOO_MANY_SIGN_INS })
  const queue: (() => void)[] = []

  function turn(): void {
    for (const pass of queue.splice(0, perTurn)) pass()
    if (queue.length > 0) setImmediate(turn)
  }

  return {
    async enter() {
      if (queue.length >= maxWaiting) throw overloaded('Too many requests at once; try again.')
      await new Promise<void>((pass) => {
        if (queue.push(pass) === 1) setImmediate(turn)
      })
      if (limiter.free === 0) throw overloaded(TOO_MANY_SIGN_INS)
    },
    attempt: limiter.run,
  }
}
