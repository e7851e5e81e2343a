import { newEntry, type RefusalReason } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { MemberIds } from '../company/account.ts'
import type { Executor } from '../database/connect.ts'
import { type LimitState, Problem, type RefusalContext } from '../errors.ts'
import type { Received } from '../limits/client.ts'
import type { System } from '../system.ts'
import type { Method } from './factor.ts'

/** A second factor that is refused: its answer and its audit entry. */

/** The last ones are for sign-in by passkey alone. */
export type FactorRefusal =
  | 'challenge_void'
  | 'unknown_passkey'
  | 'wrong_factor'
  | Extract<RefusalReason, 'company_suspended' | 'user_disabled'>

/** One answer, whatever is wrong; the log says more. */
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

export async function auditRefusal(
  { db, system }: { db: Executor; system: System },
  { companyId, userId: actor }: MemberIds,
  details: { method: Method | 'mailed_code'; reason?: FactorRefusal },
  { client: { ipAddress }, now }: Received,
  sessionId?: string,
): Promise<void> {
  const about = { action: 'second_factor', outcome: 'refused', actor, ipAddress, details }
  await appendAudit(db, companyId, newEntry(system, new Date(now), { ...about, sessionId }))
}
