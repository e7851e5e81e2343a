import type { AuditEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { noteLockout } from '../company/identity-repository.ts'
import type { Executor } from '../database/connect.ts'
import type { Counters } from '../limits/counters.ts'
import type { Limit, LimitState } from '../limits/list.ts'

/** Password guesses. Sign-in and password change share one count. */

interface Context {
  db: Executor
  counters: Counters
  config: { limits: { signInFailures: Limit } }
}

interface Guesser {
  companyId: string
  email: string
  network: string
  now: number
}

interface Guess<Result> {
  /** The result of the attempt; null if the guess was wrong. */
  result: Result | null
  guesses: LimitState
}

/**
 * Counts a guess, runs the attempt, and refunds the guess unless it was wrong. It is counted first, so that
 * parallel guesses cannot exceed the limit. An attempt that throws is not a guess.
 * @throws Problem rate_limited
 */
export async function countGuess<Result>(
  { counters, config }: Context,
  { companyId, email, network, now }: Guesser,
  attempt: () => Promise<Result | null>,
): Promise<Guess<Result>> {
  const limit = config.limits.signInFailures
  const subject = [companyId, email, network]
  const guesses = await counters.consume(limit, subject, now)
  let isWrong = false
  try {
    const result = await attempt()
    isWrong = result === null
    return { result, guesses }
  } finally {
    // The attempt has had its effect, so a failed refund must not turn it into an error.
    if (!isWrong) await counters.refund(limit, subject, now).catch(() => {})
  }
}

/** Records a wrong guess. The last one within the limit marks the lockout: the next sign-in sends a mail. */
export async function recordWrongGuess(
  { db }: Context,
  { companyId, email }: Guesser,
  guesses: LimitState,
  entry: AuditEntry,
): Promise<void> {
  if (guesses.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, email, entry)
}
