import type { Context } from '../context.ts'
import { Problem, type RefusalContext, withLogContext } from '../errors.ts'
import type { LimitState } from '../limits/list.ts'
import { createRecentRefusals } from '../limits/recent-refusals.ts'
import { byDevice, byNetwork, quotasOf } from '../limits/subject.ts'

/** Attempts to sign in, right or wrong, by password and by passkey alone. */

interface Place {
  network: string
  /** The device of the client if it is known for the member: others of its network cannot use up its attempts. */
  device: string | undefined
  /** What the log tells of a refusal. */
  logContext?: RefusalContext
}

/**
 * Runs an attempt that is counted first. One that fails by our fault does not count. A refusal stands for a second, so that
 * a flood from one network costs no statement.
 * @throws Problem rate_limited
 */
export type CountAttempt = <Result>(
  place: Place,
  now: number,
  attempt: (limit: LimitState) => Promise<Result>,
) => Promise<Result>

export function createAttempts({ counters, config }: Pick<Context, 'counters' | 'config'>): CountAttempt {
  const { signInAttempts } = config.limits
  const refusals = createRecentRefusals()
  return async ({ network, device, logContext = {} }, now, attempt) => {
    const subject = device === undefined ? byNetwork(network) : byDevice(device, network)
    const quotas = quotasOf(signInAttempts, subject)
    const recent = refusals.find(quotas, now)
    if (recent) throw withLogContext(recent, logContext)
    const attempting = counters.consumeFor(signInAttempts, subject, now, attempt)
    return await attempting.catch((error: unknown) => {
      if (!(error instanceof Problem) || error.code !== 'rate_limited') throw error
      const quota = quotas.find(({ limit }) => limit.name === error.extras.limit?.name)
      if (!quota) throw error
      refusals.note(quota, error, now)
      throw withLogContext(error, logContext)
    })
  }
}
