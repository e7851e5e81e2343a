import type { Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import type { Counters } from '../limits/counters.ts'
import type { Limit } from '../limits/list.ts'
import { holdSession } from './acting-repository.ts'
import { type Session, sessionEnded } from './session.ts'

/** Each change leaves rows, so a user makes a bounded number of them. @throws Problem rate_limited */
export async function countChange(
  { counters, config }: { counters: Counters; config: { limits: { memberChanges: Limit } } },
  { companyId, userId }: Pick<Session, 'companyId' | 'userId'>,
  now: number,
): Promise<void> {
  await counters.consume(config.limits.memberChanges, [companyId, userId], now)
}

/**
 * Confirms, in the transaction of an act and after all that it has waited for, that the session of who acts is live and that
 * the user may do it. The guards have looked before.
 * @throws Problem session_ended, permission_denied
 */
export async function requireActor(
  tx: Transaction<Database>,
  { companyId, userId, sessionId }: Pick<Session, 'companyId' | 'userId' | 'sessionId'>,
  now: number,
  permission?: string,
): Promise<void> {
  const permissions = await holdSession(tx, companyId, { userId, sessionId }, new Date(now))
  if (!permissions) throw sessionEnded()
  if (permission !== undefined && !permissions.includes(permission))
    throw new Problem(
      'permission_denied',
      `This needs the permission ${permission}, which you no longer have.`,
    )
}
