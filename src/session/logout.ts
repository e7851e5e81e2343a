import type { Kysely } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Database } from '../database/schema.ts'
import { newId, type System } from '../system.ts'
import { endUserSessions, type Logout, logOutSessions } from './ending-repository.ts'
import type { Session } from './session.ts'

interface Context {
  db: Kysely<Database>
  system: System
  measureBatch: MeasureBatch
}

interface LogoutRequest {
  scope: 'session' | 'all'
  ipAddress: string
  now: number
}

/** Ends the session, or all sessions of its user. When it resolves, no instance accepts their credentials. */
export type LogOut = (session: Session, request: LogoutRequest) => Promise<void>

export function createLogout({ db, system, measureBatch }: Context): LogOut {
  const endOne = createBatch<Logout, boolean>({
    keyOf: ({ companyId, sessionId }) => `${companyId} ${sessionId}`,
    run: measureBatch('logouts', (items) => logOutSessions(db, items)),
    schedule: setImmediate,
  })

  return async ({ companyId, sessionId, userId }, { scope, ipAddress, now: ms }) => {
    const now = new Date(ms)
    if (scope === 'session') {
      await endOne({ companyId, sessionId, now, auditId: newId(system), ipAddress })
      return
    }
    const about = { action: 'logout_all', outcome: 'done', actor: userId, sessionId, ipAddress }
    await db.transaction().execute(async (tx) => {
      await endUserSessions(tx, companyId, userId, 'logout')
      await appendAudit(tx, companyId, newEntry(system, now, about))
    })
  }
}
