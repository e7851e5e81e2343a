import { newEntry, type SignInRefusal } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { MemberIds } from '../company/account.ts'
import type { AssertionResponse } from '../crypto/passkeys.ts'
import type { Executor } from '../database/connect.ts'
import type { FactorKind } from '../database/schema.ts'
import { type LimitState, Problem, type RefusalContext } from '../errors.ts'
import type { Received } from '../limits/client.ts'
import type { System } from '../system.ts'
import type { Method } from './schemas.ts'

export type GivenProof =
  | { method: 'totp' | 'recovery_code'; code: string }
  | { method: 'passkey'; response: AssertionResponse }

/** Values of `amr` (RFC 8176). A passkey's key is in hardware unless it can be copied. Its device verified the user. */
export function methodValuesOf(factor: { kind: FactorKind; backupEligible?: boolean | null }): string[] {
  if (factor.kind === 'totp') return ['otp']
  return [factor.backupEligible ? 'swk' : 'hwk', 'user']
}

/** The last two are for sign-in by passkey only. */
export type FactorRefusal =
  | 'challenge_void'
  | 'unknown_passkey'
  | 'wrong_factor'
  | Extract<SignInRefusal, 'company_suspended' | 'user_disabled'>

/** The same response for every cause; the log has the reason. */
export function invalidSecondFactor(
  logContext: RefusalContext & { reason: FactorRefusal },
  limit?: LimitState,
): Problem {
  return new Problem(
    'invalid_second_factor',
    'The second factor is wrong, or its challenge was used or has expired. Try again, or sign in again.',
    { logContext, ...(limit && { limit }) },
  )
}

export async function auditRefusal(
  { db, system }: { db: Executor; system: System },
  { companyId, userId: actor, sessionId }: MemberIds & { sessionId?: string | undefined },
  details: { method: Method | 'mailed_code'; reason?: FactorRefusal },
  { client: { ipAddress, via }, now }: Received,
): Promise<void> {
  const all = via ? { ...details, via: via.userId } : details
  const about = { action: 'second_factor', outcome: 'refused', actor, sessionId, ipAddress, details: all }
  await appendAudit(db, companyId, newEntry(system, new Date(now), about))
}
