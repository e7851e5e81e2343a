import { Problem } from '../errors.ts'
import type { LimitState } from './list.ts'

/** The parts of an answer that report a limit. */

/** RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers). */
export function limitHeaders({ name, max, windowSeconds, remaining, resetSeconds }: LimitState) {
  return {
    'ratelimit-policy': `"${name}";q=${max};w=${windowSeconds}`,
    ratelimit: `"${name}";r=${remaining};t=${resetSeconds}`,
  }
}

/** The refusal of a client that has used up a limit. */
export function rateLimited(limit: LimitState): Problem {
  const { max, windowSeconds, resetSeconds } = limit
  return new Problem(
    'rate_limited',
    `At most ${max} in ${windowSeconds} s are allowed here; try again in ${resetSeconds} s.`,
    { limit, retryAfterSeconds: resetSeconds },
  )
}
