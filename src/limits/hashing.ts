import { availableParallelism } from 'node:os'
import { createPasswordHasher, type HashParameters, type PasswordHasher } from '../crypto/password.ts'
import type { Turn } from '../edge/fair-queue.ts'
import { type Admission, createAdmission } from './admission.ts'

export interface LimitedHasher
  extends Pick<Admission, 'requireShare' | 'hasSlot' | 'requireSlot' | 'waiting'> {
  inTurn(turn: Turn): PasswordHasher
}

/** Each hash takes a core and a thread of libuv. Estimates take longer, so they have a thread and a queue of their own. */
export async function createLimitedHasher(
  concurrency = availableParallelism(),
  bounds = { max: 128 * concurrency, maxPerWiderNetwork: 32 * concurrency },
  parameters?: HashParameters,
): Promise<LimitedHasher> {
  const hasher = await createPasswordHasher(parameters)
  const hashes = createAdmission({
    slots: concurrency,
    bounds,
    detail: 'Too many sign-ins at once; try again in a moment.',
  })
  const estimates = createAdmission({
    slots: 1,
    bounds,
    detail: 'Too many new passwords at once; try again in a moment.',
  })
  return {
    inTurn: (turn) => ({
      ...hasher,
      hash: (password) => hashes.run(turn, () => hasher.hash(password)),
      verify: (phc, password) => hashes.run(turn, () => hasher.verify(phc, password)),
      estimate: (password, hints) => estimates.run(turn, () => hasher.estimate(password, hints)),
    }),
    requireShare: hashes.requireShare,
    hasSlot: hashes.hasSlot,
    requireSlot: hashes.requireSlot,
    get waiting() {
      return hashes.waiting
    },
  }
}
