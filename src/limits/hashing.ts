import { availableParallelism } from 'node:os'
import { createPasswordHasher, type PasswordHasher } from '../crypto/password.ts'
import { createLimiter } from './limiter.ts'

/** A hasher that hashes only so many passwords at a time. */
export interface LimitedHasher extends PasswordHasher {
  /** How many passwords wait for their turn. */
  readonly waiting: number
  /** How many can be at work or wait at the same time. */
  readonly capacity: number
}

/**
 * A hasher that leaves the machine to others. At most `concurrency` passwords are hashed at a time, since each
 * takes one whole core and one of libuv's threads. The queue is bounded, since a long one answers nobody in time.
 * Both functions throw Problem overloaded beyond that.
 */
export async function createLimitedHasher(
  concurrency = availableParallelism(),
  maxWaiting = 32 * concurrency,
): Promise<LimitedHasher> {
  const hasher = await createPasswordHasher()
  const limiter = createLimiter({ concurrency, maxWaiting, refusal: TOO_MANY_SIGN_INS })
  return {
    hash: (password) => limiter.run(() => hasher.hash(password)),
    verify: (phc, password) => limiter.run(() => hasher.verify(phc, password)),
    get waiting() {
      return limiter.waiting
    },
    capacity: limiter.capacity,
  }
}

export const TOO_MANY_SIGN_INS = 'Too many sign-ins at once; try again in a moment.'
