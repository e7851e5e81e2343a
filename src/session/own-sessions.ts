import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { endOwnSession } from './ending-repository.ts'
import { listSessions } from './repository.ts'
import type { Session } from './session.ts'

/** Users list and end their own sessions, and no others. */

/** A server that signs in again instead of refreshing can have very many sessions. */
const MAX_LISTED = 1_000

export function createOwnSessions({ db, system }: Pick<Context, 'db' | 'system'>) {
  return {
    list: async ({ companyId, userId }: Session, now: number) =>
      await listSessions(db, companyId, userId, { now: new Date(now), max: MAX_LISTED }),

    /** @throws Problem not_found */
    async end(
      { companyId, userId }: Session,
      sessionId: string,
      { ipAddress, now }: { ipAddress: string; now: number },
    ): Promise<void> {
      const ending = { reason: 'ended_by_user', now: new Date(now) } as const
      await db.transaction().execute(async (tx) => {
        if (!(await endOwnSession(tx, companyId, userId, sessionId, ending)))
          throw new Problem('not_found', 'You have no live session with this id.')
        const about = { action: 'session_end', outcome: 'done', actor: userId, sessionId, ipAddress }
        await appendAudit(tx, companyId, newEntry(system, ending.now, about))
      })
    },
  }
}
