import type { Kysely } from 'kysely'
import type { Database } from '../database/schema.ts'
import { endCompanySessions, endUserSessions } from '../session/ending-repository.ts'
import type { System } from '../system.ts'
import { auditOperator } from './audit.ts'

interface Context {
  db: Kysely<Database>
  system: System
}

/** Ends all sessions of a company; returns how many. */
export async function endSessionsOfCompany({ db, system }: Context, companyId: string): Promise<number> {
  const ending = { reason: 'ended_by_operator', now: new Date(system.now()) } as const
  return await db.transaction().execute(async (tx) => {
    const ended = await endCompanySessions(tx, companyId, ending)
    await auditOperator(tx, system, companyId, ending.now, { action: 'sessions_end' })
    return ended
  })
}

/** Ends all sessions of a user; returns how many. */
export async function endSessionsOfUser(
  { db, system }: Context,
  companyId: string,
  userId: string,
): Promise<number> {
  const ending = { reason: 'ended_by_operator', now: new Date(system.now()) } as const
  return await db.transaction().execute(async (tx) => {
    const ended = await endUserSessions(tx, companyId, userId, ending)
    await auditOperator(tx, system, companyId, ending.now, { action: 'sessions_end', subject: userId })
    return ended
  })
}
