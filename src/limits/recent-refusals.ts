import { LruMap } from 'toad-cache'
import type { Problem } from '../errors.ts'
import { counterOf, type Quota } from './subject.ts'

/**
 * Remembers for a moment which counters were used up, so that a flood is refused without a statement. It also spares
 * rows: each of the 65 536 networks of an IPv6 /48 would leave one before the /48 is refused.
 */
export interface RecentRefusals {
  /** The refusal of one of the counters that was used up a moment ago. */
  find(quotas: Quota[], now: number): Problem | undefined
  note(quota: Quota, refusal: Problem, now: number): void
}

/** Not longer, since a use can be given back meanwhile. */
const REMEMBERED_MS = 1_000
const MAX_REMEMBERED = 10_000

export function createRecentRefusals(): RecentRefusals {
  const refusals = new LruMap<{ at: number; refusal: Problem }>(MAX_REMEMBERED)
  return {
    find(quotas, now) {
      for (const quota of quotas) {
        const last = refusals.get(counterOf(quota))
        if (last && Math.abs(now - last.at) < REMEMBERED_MS) return last.refusal
      }
      return undefined
    },
    note: (quota, refusal, now) => refusals.set(counterOf(quota), { at: now, refusal }),
  }
}
