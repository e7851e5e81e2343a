import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import * as ending from './ending-repository.ts'
import * as repository from './repository.ts'
import type { Session } from './session.ts'

/** Users list and end their own sessions, and no others. */

/** A server that signs in again instead of refreshing can have very many sessions. */
const MAX_LISTED = 1_000

export async function listOwnSessions(
  { db }: Pick<Context, 'db'>,
  { companyId, userId }: Session,
  now: number,
) {
  return await repository.listSessions(db, companyId, userId, { now: new Date(now), max: MAX_LISTED })
}

/** @throws Problem not_found */
export async function endOwnSession(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { companyId, userId }: Session,
  sessionId: string,
  { ipAddress, now }: { ipAddress: string; now: number },
): Promise<void> {
  const end = { reason: 'ended_by_user', now: new Date(now) } as const
  await db.transaction().execute(async (tx) => {
    if (!(await ending.endOwnSession(tx, companyId, userId, sessionId, end)))
      throw new Problem('not_found', 'You have no live session with this id.')
    const about = { action: 'session_end', outcome: 'done', actor: userId, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, end.now, about))
  })
}
