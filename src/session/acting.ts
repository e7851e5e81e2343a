import type { Transaction } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import { holdSession } from './acting-repository.ts'
import { type Session, sessionEnded } from './session.ts'

/**
 * Confirms, in the transaction of an act and after all that it has waited for, that the session of who acts is live and that
 * the user may do it. The guards have looked before.
 * @throws Problem session_ended, permission_denied
 */
export async function requireActor(
  tx: Transaction,
  { companyId, userId, sessionId }: Pick<Session, 'companyId' | 'userId' | 'sessionId'>,
  now: number,
  permission: string | null,
): Promise<void> {
  const permissions = await holdSession(tx, companyId, { userId, sessionId }, new Date(now))
  if (!permissions) throw sessionEnded()
  if (permission !== null && !permissions.includes(permission))
    throw new Problem(
      'permission_denied',
      `This needs the permission ${permission}, which you no longer have.`,
    )
}
