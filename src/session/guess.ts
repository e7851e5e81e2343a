import type { AuditEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { noteLockout } from '../company/identity-repository.ts'
import type { Executor } from '../database/connect.ts'
import type { Counters } from '../limits/counters.ts'
import type { Limit, LimitState } from '../limits/list.ts'

/** Guesses at a password, which sign-in and a change of password count together. */

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
  /** What the attempt gave; null if the guess was wrong. */
  result: Result | null
  guesses: LimitState
}

/**
 * Counts a guess, lets it be tried, and takes it back unless it was wrong. It is counted before it is tried, so
 * parallel guesses cannot beat the count. Whatever the attempt throws, nothing was guessed.
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
    // A count that stays is the lesser harm: the attempt has had its effect.
    if (!isWrong) await counters.refund(limit, subject, now).catch(() => {})
  }
}

/** Records a wrong guess. After the last one that is taken, the user is told once they are back. */
export async function recordWrongGuess(
  { db }: Context,
  { companyId, email }: Guesser,
  guesses: LimitState,
  entry: AuditEntry,
): Promise<void> {
  if (guesses.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, email, entry)
}
