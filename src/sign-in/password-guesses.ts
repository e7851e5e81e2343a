import type { AuditEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { noteLockout } from '../company/identity-repository.ts'
import type { Executor } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import type { Counters } from '../limits/counters.ts'
import type { Limit, LimitState } from '../limits/list.ts'
import { byNetwork, quotasOf } from '../limits/subject.ts'

/**
 * Password guesses. Sign-in and password change share two counts: of one network or device, and of all together. When
 * the second one is used up, every password from an unknown network is refused. So guesses from many networks do not
 * help.
 */

interface Context {
  db: Executor
  counters: Counters
  config: { limits: { signInFailures: Limit; accountFailures: Limit } }
}

interface Guesser {
  companyId: string
  email: string
  /** The network of the client, or its device if that is known for the member. */
  networkOrDevice: string
  /** Whether network or device are known for the member. */
  isKnown: boolean
  now: number
}

export interface Guess<Result> {
  /** The result of the attempt; null if the guess was wrong. */
  result: Result | null
  /** The count of the network or device. */
  guesses: LimitState
  /** The count of all together; null if it was used up before. */
  ofAccount: LimitState | null
}

/**
 * Counts a guess, runs the attempt, and refunds the guess unless it was wrong. It is counted first, so that
 * parallel guesses cannot exceed a limit. An attempt that throws is not a guess. If `isBarred`, the attempt must
 * return null after the work of a wrong guess.
 * @throws Problem rate_limited
 */
export async function countGuess<Result>(
  { counters, config: { limits } }: Context,
  { companyId, email, networkOrDevice, isKnown, now }: Guesser,
  attempt: (isBarred: boolean) => Promise<Result | null>,
): Promise<Guess<Result>> {
  const place = byNetwork(networkOrDevice, companyId, email)
  const account = [companyId, email]
  const guesses = await counters.consume(limits.signInFailures, place, now)
  let ofAccount: LimitState | null = null
  let isWrong = false
  try {
    ofAccount = await unlessUsedUp(counters.consume(limits.accountFailures, account, now))
    const result = await attempt(ofAccount === null && !isKnown)
    isWrong = result === null
    return { result, guesses, ofAccount }
  } finally {
    // The attempt has had its effect, so a failed refund must not turn it into an error.
    if (!isWrong) {
      const counted = quotasOf(limits.signInFailures, place)
      if (ofAccount) counted.push(...quotasOf(limits.accountFailures, account))
      await counters.refund(counted, now).catch(() => {})
    }
  }
}

async function unlessUsedUp(consumed: Promise<LimitState>): Promise<LimitState | null> {
  return await consumed.catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'rate_limited') return null
    throw error
  })
}

/** Records a wrong guess. The last one within the limit marks the lockout: the next sign-in sends a mail. */
export async function recordWrongGuess(
  { db }: Context,
  { companyId, email }: Guesser,
  { guesses }: Guess<unknown>,
  entry: AuditEntry,
): Promise<void> {
  if (guesses.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, email, entry)
}
