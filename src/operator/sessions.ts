import { type ActContext, asOperator } from '../acts.ts'
import { PLATFORM } from '../audit/entry.ts'
import { noSuchCompany, noSuchUser } from '../company/problems.ts'
import {
  endCompanySessions,
  endSessionsAcrossCompanies,
  endUserSessions,
} from '../session/ending-repository.ts'

/** Ends all sessions of a company. @throws Problem not_found */
export async function endSessionsOfCompany(
  context: ActContext,
  companyId: string,
  now: number,
): Promise<void> {
  await asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    if (!(await endCompanySessions(tx, companyId, 'ended_by_operator'))) throw noSuchCompany()
    await audit('sessions_end')
  })
}

/** Ends all sessions of a user. @throws Problem not_found */
export async function endSessionsOfUser(
  context: ActContext,
  companyId: string,
  userId: string,
  now: number,
): Promise<void> {
  await asOperator(context, { companyId, now }, async ({ tx, audit }) => {
    if (!(await endUserSessions(tx, companyId, userId, 'ended_by_operator'))) throw noSuchUser()
    await audit('sessions_end', { subject: userId })
  })
}

/**
 * Ends all sessions of all companies, as after the restore of a backup, in which sessions are live that have
 * ended since; returns the number of companies.
 */
export async function endAllSessions(context: ActContext, now: number): Promise<number> {
  return await asOperator(context, { companyId: PLATFORM, now }, async ({ tx, audit }) => {
    const companies = await endSessionsAcrossCompanies(tx, 'ended_by_operator')
    await audit('sessions_end_all')
    return companies
  })
}
