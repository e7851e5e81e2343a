import type { RefusalReason } from '../audit/entry.ts'
import { Problem, type RefusalContext } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import type { LimitState } from '../limits/list.ts'

/** Where a request comes from, and when in milliseconds. */
export interface Received {
  client: Client
  now: number
}

/** A user of a company. */
export interface MemberIds {
  companyId: string
  userId: string
}

/** Why a second factor is refused; by passkey alone, also why its owner cannot sign in. */
export type FactorRefusal =
  | 'challenge_void'
  | 'unknown_passkey'
  | 'wrong_factor'
  | Extract<RefusalReason, 'company_suspended' | 'user_disabled'>

/** The one answer to a second factor that is not right, whatever is wrong with it; the log tells more. */
export function invalidSecondFactor(
  logContext: RefusalContext & { reason: FactorRefusal },
  limit?: LimitState,
): Problem {
  return new Problem(
    'invalid_second_factor',
    'The second factor is wrong, or its challenge is used or expired. Try again, or sign in again.',
    { logContext, ...(limit && { limit }) },
  )
}
