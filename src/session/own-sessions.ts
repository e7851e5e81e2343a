import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Context } from '../context.ts'
import { Problem } from '../errors.ts'
import { endOwnSession } from './ending-repository.ts'
import { listSessions, type OwnSession } from './own-sessions-repository.ts'
import type { Session } from './session.ts'

/** Users list and end their own sessions, and no others. */

/** A server that signs in again instead of refreshing can have very many sessions. */
const MAX_LISTED = 1_000

export interface OwnSessions {
  /** The user's live sessions, last used first; at most 1 000. */
  list(session: Session, now: number): Promise<OwnSession[]>
  /** Ends one of the user's sessions, which can be the current one. @throws Problem not_found */
  end(session: Session, sessionId: string, request: { ipAddress: string; now: number }): Promise<void>
}

export function createOwnSessions({ db, system }: Pick<Context, 'db' | 'system'>): OwnSessions {
  return {
    list: ({ companyId, userId }, now) =>
      listSessions(db, companyId, userId, { now: new Date(now), max: MAX_LISTED }),

    async end({ companyId, userId }, sessionId, { ipAddress, now }) {
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
