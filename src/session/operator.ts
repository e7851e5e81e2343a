import type { Kysely } from 'kysely'
import * as companies from '../company/service.ts'
import type { Database, UserStatus } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import type { System } from '../system.ts'
import * as repository from './repository.ts'

/** What operators end: a user, a company, sessions. Each is one transaction with the sessions that go. */

interface Context {
  db: Kysely<Database>
  system: System
}

/**
 * Disables a user, whose sessions end with it, or enables one, who then has to sign in.
 * @throws Problem not_found
 */
export async function changeUserStatus(
  { db, system }: Context,
  companyId: string,
  user: { userId: string } | { email: string },
  status: UserStatus,
): Promise<{ userId: string }> {
  const now = new Date(system.now())
  return await db.transaction().execute(async (tx) => {
    const userId = await companies.setUserStatus(tx, companyId, user, status)
    if (userId === undefined) throw new Problem('not_found', 'The company has no such user.')
    if (status === 'disabled')
      await repository.endSessions(tx, companyId, userId, { reason: 'user_disabled', now })
    await companies.auditOperator(
      tx,
      system,
      companyId,
      status === 'disabled' ? 'user_disable' : 'user_enable',
      userId,
    )
    return { userId }
  })
}

/**
 * Suspends a company, whose sessions end with it, or resumes it.
 * @throws Problem not_found
 */
export async function changeCompanyStatus(
  { db, system }: Context,
  companyId: string,
  status: 'active' | 'suspended',
): Promise<void> {
  const now = new Date(system.now())
  await db.transaction().execute(async (tx) => {
    if (!(await companies.setCompanyStatus(tx, companyId, status))) throw companies.noSuchCompany()
    if (status === 'suspended')
      await repository.endSessions(tx, companyId, null, { reason: 'company_suspended', now })
    await companies.auditOperator(
      tx,
      system,
      companyId,
      status === 'suspended' ? 'company_suspend' : 'company_resume',
    )
  })
}

/** Ends all sessions of a company, or of one user; returns how many. */
export async function endSessionsByOperator(
  { db, system }: Context,
  companyId: string,
  userId: string | null,
): Promise<number> {
  const now = new Date(system.now())
  return await db.transaction().execute(async (tx) => {
    const ended = await repository.endSessions(tx, companyId, userId, { reason: 'ended_by_operator', now })
    await companies.auditOperator(tx, system, companyId, 'sessions_end', userId ?? undefined)
    return ended
  })
}
