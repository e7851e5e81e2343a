import { LruMap } from 'toad-cache'
import { type LimitState, Problem } from '../errors.ts'
import { counterOf, type Quota } from './subject.ts'

/** The refusal of a limit that is used up, and a short memory of such limits. */

export function rateLimited(limit: LimitState): Problem {
  const { max, windowSeconds, resetSeconds } = limit
  return new Problem(
    'rate_limited',
    `At most ${max} in ${windowSeconds} s are allowed here; try again in ${resetSeconds} s.`,
    { limit, retryAfterSeconds: resetSeconds },
  )
}

/** Not longer, since a use can be refunded. */
const REMEMBERED_MS = 1_000
const MAX_REMEMBERED = 10_000

/** By it, a flood causes no statements, and the 65 536 networks of an IPv6 /48 leave no rows. */
export function createUsedUpMemory() {
  const usedUp = new LruMap<{ at: number; refusal: Problem }>(MAX_REMEMBERED)
  return {
    find(quotas: Quota[], now: number): Problem | undefined {
      for (const quota of quotas) {
        const last = usedUp.get(counterOf(quota))
        if (last && Math.abs(now - last.at) < REMEMBERED_MS) return last.refusal
      }
      return undefined
    },
    note: (quota: Quota, refusal: Problem, now: number) => usedUp.set(counterOf(quota), { at: now, refusal }),
  }
}
