import type { Tx } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import { lockSession } from './repository.ts'
import { type Session, sessionEnded } from './session.ts'

/** Call it after all locks of the act: the guards checked session and right before the wait. @throws Problem session_ended, permission_denied */
export async function requireActor(
  tx: Tx,
  { companyId, userId, sessionId }: Pick<Session, 'companyId' | 'userId' | 'sessionId'>,
  now: number,
  permission: string | null,
): Promise<void> {
  const permissions = await lockSession(tx, companyId, { userId, sessionId }, new Date(now))
  if (!permissions) throw sessionEnded()
  if (permission !== null && !permissions.includes(permission))
    throw new Problem(
      'permission_denied',
      `This needs the permission ${permission}, which you no longer have.`,
    )
}
