import { availableParallelism } from 'node:os'
import { createPasswordHasher, type HashParameters, type PasswordHasher } from '../crypto/password.ts'
import { type Admission, createAdmission, type Turn } from './admission.ts'

export interface LimitedHasher extends Pick<Admission, 'hasSlot' | 'requireSlot' | 'waiting'> {
  inTurn(turn: Turn): PasswordHasher
}

/** Each hash takes a core and a thread of libuv. Estimates take longer, so they have a thread and a queue of their own. */
export async function createLimitedHasher(
  concurrency = availableParallelism(),
  maxWaiting = 128 * concurrency,
  parameters?: HashParameters,
): Promise<LimitedHasher> {
  const hasher = await createPasswordHasher(parameters)
  const bounds = { maxWaiting, maxPerSender: maxWaiting / 4 }
  const hashes = createAdmission({
    ...bounds,
    slots: concurrency,
    detail: 'Too many sign-ins at once; try again in a moment.',
  })
  const estimates = createAdmission({
    ...bounds,
    slots: 1,
    detail: 'Too many new passwords at once; try again in a moment.',
  })
  return {
    inTurn: (turn) => ({
      ...hasher,
      hash: (password) => hashes.run(turn, () => hasher.hash(password)),
      verify: (phc, password) => hashes.run(turn, () => hasher.verify(phc, password)),
      estimate: (password, hints) => estimates.run(turn, () => hasher.estimate(password, hints)),
    }),
    hasSlot: hashes.hasSlot,
    requireSlot: hashes.requireSlot,
    get waiting() {
      return hashes.waiting
    },
  }
}
