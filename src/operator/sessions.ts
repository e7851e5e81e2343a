import { PLATFORM } from '../audit/entry.ts'
import { noSuchCompany, noSuchUser } from '../company/problems.ts'
import type { Context } from '../context.ts'
import {
  endCompanySessions,
  endSessionsAcrossCompanies,
  endUserSessions,
} from '../session/ending-repository.ts'
import { auditOperator } from './audit.ts'

/** Ends all sessions of a company. @throws Problem not_found */
export async function endSessionsOfCompany(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  now: number,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    if (!(await endCompanySessions(tx, companyId, 'ended_by_operator'))) throw noSuchCompany()
    await auditOperator(tx, system, companyId, new Date(now), { action: 'sessions_end' })
  })
}

/** Ends all sessions of a user. @throws Problem not_found */
export async function endSessionsOfUser(
  { db, system }: Pick<Context, 'db' | 'system'>,
  companyId: string,
  userId: string,
  now: number,
): Promise<void> {
  await db.transaction().execute(async (tx) => {
    if (!(await endUserSessions(tx, companyId, userId, 'ended_by_operator'))) throw noSuchUser()
    await auditOperator(tx, system, companyId, new Date(now), { action: 'sessions_end', subject: userId })
  })
}

/**
 * Ends all sessions of all companies, as after the restore of a backup, in which sessions are live that have
 * ended since; returns the number of companies.
 */
export async function endAllSessions(
  { db, system }: Pick<Context, 'db' | 'system'>,
  now: number,
): Promise<number> {
  return await db.transaction().execute(async (tx) => {
    const companies = await endSessionsAcrossCompanies(tx, 'ended_by_operator')
    await auditOperator(tx, system, PLATFORM, new Date(now), { action: 'sessions_end_all' })
    return companies
  })
}
