import { availableParallelism } from 'node:os'
import { createPasswordHasher, type PasswordHasher } from '../crypto/password.ts'
import { createLimiter } from './limiter.ts'

/** A hasher with a bound on the passwords that are hashed at the same time. */
export interface LimitedHasher extends PasswordHasher {
  /** The number of passwords that wait. */
  readonly waiting: number
  /** The number of passwords that can be hashed or wait at the same time. */
  readonly capacity: number
}

/**
 * Hashes at most `concurrency` passwords at a time, since each one takes a core and one of libuv's threads.
 * The queue is bounded, since clients do not wait for the end of a long one. When it is full, both functions
 * throw Problem overloaded.
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
