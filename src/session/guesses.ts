import { type LimitState, Problem, type RefusalContext, rateLimited, withLogContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Client } from '../limits/client.ts'
import { byDevice, byNetwork, type Quota, quotasOf, tightest } from '../limits/subject.ts'

/** The limits of sign-in: attempts, right or wrong, by network; and guesses of a password, the wrong ones alone. */

interface Attempting {
  client: Pick<Client, 'network' | 'noteLimit'>
  /** If known: others of its network cannot use up its attempts. */
  device: string | undefined
  now: number
  logContext?: RefusalContext
}

/** An attempt that fails by our fault does not count. A flood from one network causes no statement. @throws Problem rate_limited */
export async function countAttempt<Result>(
  { counters, config }: Pick<Context, 'counters' | 'config'>,
  { client, device, now, logContext = {} }: Attempting,
  attempt: () => Promise<Result>,
): Promise<Result> {
  const { signInAttempts } = config.limits
  const subject = device === undefined ? byNetwork(client.network) : byDevice(device, client.network)
  const quotas = quotasOf(signInAttempts, subject)
  const remembered = counters.usedUpMemory.find(quotas, now)
  if (remembered) throw withLogContext(remembered, logContext)
  const attempting = counters.consumeFor(signInAttempts, subject, { client, now }, attempt)
  return await attempting.catch((error: unknown) => {
    if (!(error instanceof Problem) || error.code !== 'rate_limited') throw error
    const quota = quotas.find(({ limit }) => limit.name === error.extras.limit?.name)
    if (!quota) throw error
    counters.usedUpMemory.note(quota, error, now)
    throw withLogContext(error, logContext)
  })
}

interface Guesser {
  companyId: string
  email: string
  userId: string | undefined
  /** The device if it is known for the member. */
  networkOrDevice: string
  isKnown: boolean
  now: number
}

export interface Guess {
  ofNetwork: LimitState
  /** Null if the limit was used up before. */
  ofAccount: LimitState | null
  /** Whether any password fails, after the work of a wrong one. */
  isBarred: boolean
  uses: Quota[]
}

/**
 * The one rule for sign-in and password change. A guess is counted first, so that parallel ones cannot exceed a
 * limit, and refunded unless it was wrong (null) or `isRefunded` by its own statement. When all networks together have used
 * up the account's limit, only known clients can sign in. An attempt that throws is no guess. @throws Problem rate_limited
 */
export async function countGuess<Result>(
  context: Pick<Context, 'counters' | 'config'>,
  guesser: Guesser,
  attempt: (guess: Guess) => Promise<Result | null>,
  isRefunded: (result: Result) => boolean = () => false,
): Promise<Guess & { result: Result | null }> {
  const guess = await consumeGuess(context, guesser)
  const { counters } = context
  const result = await attempt(guess).catch(async (error: unknown) => {
    await counters.refund(guess.uses, error)
    throw error
  })
  if (result !== null && !isRefunded(result)) await counters.refundFirst(guess.uses)
  return { ...guess, result }
}

async function consumeGuess(
  { counters, config: { limits } }: Pick<Context, 'counters' | 'config'>,
  { companyId, email, userId, networkOrDevice, isKnown, now }: Guesser,
): Promise<Guess> {
  const network = quotasOf(limits.signInFailures, byNetwork(networkOrDevice, companyId, email))
  const quotas = [...network, ...quotasOf(limits.accountFailures, [companyId, email])]
  const { states, usedUp } = await counters.consumeInOrder(quotas, now)
  const uses = quotas.slice(0, states.length)
  if (usedUp && states.length < network.length) {
    await counters.refund(uses)
    throw withLogContext(rateLimited(usedUp), { companyId, ...(userId && { userId }), reason: 'locked_out' })
  }
  const ofAccount = states[network.length] ?? null
  return {
    ofNetwork: tightest(states.slice(0, network.length)),
    ofAccount,
    isBarred: !ofAccount && !isKnown,
    uses,
  }
}
