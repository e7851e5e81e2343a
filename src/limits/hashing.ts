import { availableParallelism } from 'node:os'
import { createPasswordHasher, type HashParameters, type PasswordHasher } from '../crypto/password.ts'
import type { Turn } from '../edge/turn-queue.ts'
import { type Admission, createAdmission } from './admission.ts'

/** Hashes passwords, a bounded number at a time, in a fair order. */
export interface LimitedHasher
  extends Pick<Admission, 'requireShare' | 'hasPlace' | 'requirePlace' | 'waiting'> {
  /** A hasher for one client. Its functions throw Problem overloaded if the queue has no place for it. */
  inTurn(turn: Turn): PasswordHasher
}

/**
 * Hashes at most `concurrency` passwords at a time, since each one takes a core and one of libuv's threads. Estimates
 * have a thread and a queue of their own: they take longer, and sign-ins do not wait for them.
 */
export async function createLimitedHasher(
  concurrency = availableParallelism(),
  bounds = { max: 128 * concurrency, maxPerWiderNetwork: 32 * concurrency },
  parameters?: HashParameters,
): Promise<LimitedHasher> {
  const hasher = await createPasswordHasher(parameters)
  const refusal = 'Too many sign-ins at once; try again in a moment.'
  const hashes = createAdmission({ places: concurrency, bounds, refusal })
  const estimates = createAdmission({
    places: 1,
    bounds,
    refusal: 'Too many new passwords at once; try again in a moment.',
  })
  return {
    inTurn: (turn) => ({
      ...hasher,
      hash: (password) => hashes.run(turn, () => hasher.hash(password)),
      verify: (phc, password) => hashes.run(turn, () => hasher.verify(phc, password)),
      estimate: (password, hints) => estimates.run(turn, () => hasher.estimate(password, hints)),
    }),
    requireShare: hashes.requireShare,
    hasPlace: hashes.hasPlace,
    requirePlace: hashes.requirePlace,
    get waiting() {
      return hashes.waiting
    },
  }
}
