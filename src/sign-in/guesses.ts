import type { Context } from '../context.ts'
import { withLogContext } from '../errors.ts'
import { rateLimited } from '../limits/answer.ts'
import type { LimitState } from '../limits/list.ts'
import { byNetwork, type Quota, quotasOf, tightest } from '../limits/subject.ts'

/**
 * Guesses of a password: the one rule for sign-in, password change and recent proof. They share two counts, of one network
 * or device, and of all together. When the second one is used up, every password from an unknown network is refused, so
 * guesses from many networks do not help.
 */

interface Guesser {
  companyId: string
  email: string
  /** Of the account; undefined if there is none. */
  userId: string | undefined
  /** The network of the client, or its device if that is known for the member. */
  networkOrDevice: string
  /** Whether network or device are known for the member. */
  isKnown: boolean
  now: number
}

export interface Guess {
  /** The count of the network or device. */
  ofPlace: LimitState
  /** The count of all together; null if it was used up before. */
  ofAccount: LimitState | null
  /** Whether no password counts. The attempt must fail after the work of a wrong guess. */
  isBarred: boolean
  /** The counters that have counted it. */
  uses: Quota[]
}

/**
 * Counts a guess, runs the attempt, and gives the guess back unless it was wrong: null. It is counted first, so that
 * parallel guesses cannot exceed a limit. An attempt that throws is not a guess. `isRefunded` tells which results have
 * given it back themselves.
 * @throws Problem rate_limited
 */
export async function countGuess<Result>(
  context: Pick<Context, 'counters' | 'config'>,
  guesser: Guesser,
  attempt: (guess: Guess) => Promise<Result | null>,
  isRefunded: (result: Result) => boolean = () => false,
): Promise<Guess & { result: Result | null }> {
  const guess = await consumeGuess(context, guesser)
  let isSettled = false
  try {
    const result = await attempt(guess)
    isSettled = result === null || isRefunded(result)
    return { ...guess, result }
  } finally {
    // The attempt has had its effect, so a failed refund must not turn it into an error.
    if (!isSettled) await context.counters.refund(guess.uses).catch(() => {})
  }
}

async function consumeGuess(
  { counters, config: { limits } }: Pick<Context, 'counters' | 'config'>,
  { companyId, email, userId, networkOrDevice, isKnown, now }: Guesser,
): Promise<Guess> {
  const place = quotasOf(limits.signInFailures, byNetwork(networkOrDevice, companyId, email))
  const quotas = [...place, ...quotasOf(limits.accountFailures, [companyId, email])]
  const { states, usedUp } = await counters.consumeInTurn(quotas, now)
  const uses = quotas.slice(0, states.length)
  if (usedUp && states.length < place.length) {
    // A refused guess takes nothing.
    await counters.refund(uses).catch(() => {})
    throw withLogContext(rateLimited(usedUp), { companyId, ...(userId && { userId }), reason: 'locked_out' })
  }
  const ofAccount = states[place.length] ?? null
  return {
    ofPlace: tightest(states.slice(0, place.length)),
    ofAccount,
    isBarred: !ofAccount && !isKnown,
    uses,
  }
}
