import type { Kysely } from 'kysely'
import { noSuchCompany, noSuchUser } from '../company/checks.ts'
import type { Database } from '../database/schema.ts'
import { endCompanySessions, endUserSessions } from '../session/ending-repository.ts'
import type { System } from '../system.ts'
import { auditOperator } from './audit.ts'

interface Context {
  db: Kysely<Database>
  system: System
}

/** Ends all sessions of a company. @throws Problem not_found */
export async function endSessionsOfCompany({ db, system }: Context, companyId: string): Promise<void> {
  const now = new Date(system.now())
  await db.transaction().execute(async (tx) => {
    if (!(await endCompanySessions(tx, companyId, 'ended_by_operator'))) throw noSuchCompany()
    await auditOperator(tx, system, companyId, now, { action: 'sessions_end' })
  })
}

/** Ends all sessions of a user. @throws Problem not_found */
export async function endSessionsOfUser(
  { db, system }: Context,
  companyId: string,
  userId: string,
): Promise<void> {
  const now = new Date(system.now())
  await db.transaction().execute(async (tx) => {
    if (!(await endUserSessions(tx, companyId, userId, 'ended_by_operator'))) throw noSuchUser()
    await auditOperator(tx, system, companyId, now, { action: 'sessions_end', subject: userId })
  })
}
