import type { Problem } from '../errors.ts'
import { rateLimited } from '../limits/answer.ts'
import type { Count } from '../limits/counters-repository.ts'
import { type Limit, type LimitState, stateOf } from '../limits/list.ts'
import { byDevice, byNetwork, type Quota, quotasOf, tightest } from '../limits/subject.ts'
import type { Chain, SignInCounters } from './sign-in-repository.ts'

/** The counters of an attempt to sign in. */

interface Attempt {
  companyId: string
  email: string
  network: string
  /** The digest of the device cookie. */
  device: string | undefined
}

interface SignInLimits {
  signInAttempts: Limit
  signInFailures: Limit
  accountFailures: Limit
}

export function countersOf(
  { signInAttempts, signInFailures, accountFailures }: SignInLimits,
  { companyId, email, network, device }: Attempt,
): SignInCounters {
  const failuresFrom = (place: string) => quotasOf(signInFailures, byNetwork(place, companyId, email))
  const ofDevice = device !== undefined && {
    attempts: quotasOf(signInAttempts, byDevice(device, network)),
    failures: failuresFrom(device),
  }
  return {
    ofNetwork: {
      attempts: quotasOf(signInAttempts, byNetwork(network)),
      failures: failuresFrom(network),
    },
    ofDevice: ofDevice || null,
    ofAccount: { limit: accountFailures, values: [companyId, email] },
  }
}

/** A counter that is used up. */
export interface UsedUp {
  quota: Quota
  refusal: Problem
  /** The counters that must get their use back, since what is refused takes nothing. */
  before: Quota[]
}

/** What an attempt has used. */
export interface Counted {
  attempts: LimitState
  failures: LimitState
  /** Null if it was used up before. */
  ofAccount: LimitState | null
  /** What gets its use back if the attempt fails by our fault, and if it is no wrong guess. */
  uses: { attempts: Quota[]; guess: Quota[] }
}

/** Reads the counts of a chain and of the account, in order. */
export function readCounts(
  { attempts, failures }: Chain,
  ofAccount: Quota,
  counts: Count[],
  now: number,
): UsedUp | Counted {
  const states = [...attempts, ...failures, ofAccount].map(({ limit }, index) =>
    toState(limit, counts[index], now),
  )
  const ofAttempts = states.slice(0, attempts.length)
  const ofFailures = states.slice(attempts.length, -1)
  const account = states.at(-1)
  // An attempt counts, also if its password is not tried.
  const usedUp = findUsedUp(attempts, ofAttempts) ?? findUsedUp(failures, ofFailures)
  if (usedUp) return usedUp
  const isBelow = account?.isUsedUp === false
  return {
    attempts: tightest(ofAttempts),
    failures: tightest(ofFailures),
    ofAccount: isBelow ? account : null,
    uses: { attempts, guess: isBelow ? [...failures, ofAccount] : failures },
  }
}

type State = LimitState & { isUsedUp: boolean }

function toState(limit: Limit, count: Count | undefined, now: number): State {
  const { uses = limit.max + 1, windowEndsAt = new Date(now) } = count ?? {}
  const left = limit.max - uses
  return { ...stateOf(limit, left, windowEndsAt.getTime(), now), isUsedUp: left < 0 }
}

function findUsedUp(quotas: Quota[], states: State[]): UsedUp | undefined {
  const index = states.findIndex(({ isUsedUp }) => isUsedUp)
  const [quota, state] = [quotas[index], states[index]]
  return quota && state && { quota, refusal: rateLimited(state), before: quotas.slice(0, index) }
}
