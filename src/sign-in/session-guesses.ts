import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Limit } from '../config/limits.ts'
import type { Tx } from '../database/connect.ts'
import type { LimitState } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { quotasOf } from '../limits/subject.ts'
import { queueMail } from '../mail/service.ts'
import { endIfGuessed } from '../session/ending-repository.ts'
import { type SessionIds, sessionEnded } from '../session/session.ts'

/**
 * Wrong re-authentications. Only the session counts them, whatever the network: the thief of a session can lock nobody out of
 * sign-in, and loses the session with the last guess of the limit. They are counted first, so that parallel ones cannot exceed it.
 */

export function limitOfSession(
  { config: { limits } }: Pick<Context, 'config'>,
  { companyId, sessionId }: Omit<SessionIds, 'userId'>,
): [Limit, string[]] {
  return [limits.wrongReauthentications, [companyId, sessionId]]
}

/** Refunded unless the result is null. @throws Problem rate_limited */
export async function countSessionGuess<Result>(
  context: Pick<Context, 'counters' | 'config'>,
  session: SessionIds,
  now: number,
  attempt: () => Promise<Result | null>,
): Promise<{ result: Result | null; limit: LimitState }> {
  const { counters } = context
  const [limit, subject] = limitOfSession(context, session)
  const state = await counters.consume(limit, subject, { now })
  const result = await attempt().catch(async (error: unknown) => {
    await counters.refund(quotasOf(limit, subject), error)
    throw error
  })
  if (result !== null) await counters.refundFirst(quotasOf(limit, subject))
  return { result, limit: state }
}

/** With its audit entry. @throws Problem session_ended */
export async function recordSessionGuess(
  context: Pick<Context, 'db' | 'system' | 'config'>,
  session: SessionIds,
  { limit: { remaining }, client: { ipAddress }, now }: Received & { limit: LimitState },
  audit: (tx: Tx) => Promise<void>,
): Promise<void> {
  const { db, system } = context
  const { companyId, userId: actor, sessionId } = session
  const isEnded = await db.transaction().execute(async (tx) => {
    await audit(tx)
    const [quota] = quotasOf(...limitOfSession(context, session))
    if (!quota || remaining > 0) return false
    const recipient = await endIfGuessed(tx, companyId, { sessionId, quota, now: new Date(now) })
    if (recipient === undefined) return false
    const about = { action: 'session_end', outcome: 'reauthentication_failed', actor, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
    const mail = { kind: 'reauthentication_failed', recipient, data: { ipAddress }, now } as const
    await queueMail(tx, system, companyId, mail)
    return true
  })
  if (isEnded) throw sessionEnded('reauthentication_failed')
}
