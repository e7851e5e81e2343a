import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import type { EndReason } from '../errors.ts'
import { counterOf, type Quota } from '../limits/client.ts'
import { endIfUsedUp } from '../limits/counters-repository.ts'
import { isNotEnded, isOfThisEpoch } from './session-fragments.ts'

/** An end is final: no row with `ended_at` is updated, and epochs only increase. Lock order: company, user, session. */

/** Clocks differ: another instance could still extend a session that has expired by this clock. A company could raise its limits. */
const CLOCK_SLACK_MS = 3_600_000

/** False if there is no such company. */
export async function endCompanySessions(db: Executor, companyId: string, reason: EndReason) {
  const { numUpdatedRows } = await db
    .updateTable('companies')
    .set(({ eb }) => ({ session_epoch: eb('session_epoch', '+', 1), session_epoch_reason: reason }))
    .where('company_id', '=', companyId)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function lockCompany(tx: Tx, companyId: string): Promise<void> {
  await sql`select from companies where company_id = ${companyId} for no key update`.execute(tx)
}

/** The kept session gets the new epoch. */
export async function endOtherCompanySessions(
  tx: Tx,
  companyId: string,
  keptSessionId: string,
  reason: EndReason,
): Promise<void> {
  await sql`
    with moved as (
      update companies set session_epoch = session_epoch + 1, session_epoch_reason = ${reason}
      where company_id = ${companyId}
      returning company_id, session_epoch
    )
    update sessions s set company_epoch = m.session_epoch
    from moved m
    where s.company_id = ${companyId} and s.session_id = ${keptSessionId} and ${isNotEnded('s')}
      and s.company_epoch = m.session_epoch - 1`.execute(tx)
}

/** Returns the number of companies. */
export async function endSessionsAcrossCompanies(db: Executor, reason: EndReason): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with locked as (select company_id from companies order by company_id for no key update)
    update companies c set session_epoch = session_epoch + 1, session_epoch_reason = ${reason}
    from locked l where c.company_id = l.company_id`.execute(db)
  return Number(numAffectedRows)
}

/** False if the company has no such user. */
export async function endUserSessions(db: Executor, companyId: string, userId: string, reason: EndReason) {
  const { numUpdatedRows } = await db
    .updateTable('users')
    .set(({ eb }) => ({ session_epoch: eb('session_epoch', '+', 1), session_epoch_reason: reason }))
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** The kept session gets the new epoch. False if it has ended: then roll back. */
export async function endOtherSessions(
  tx: Tx,
  companyId: string,
  { userId, sessionId, reason }: { userId: string; sessionId: string; reason: EndReason },
): Promise<boolean> {
  const { rows } = await sql`
    with moved as (
      update users set session_epoch = session_epoch + 1, session_epoch_reason = ${reason}
      where company_id = ${companyId} and user_id = ${userId}
      returning company_id, session_epoch
    )
    update sessions s set user_epoch = m.session_epoch
    from moved m join companies c on c.company_id = m.company_id
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.user_id = ${userId}
      and ${isNotEnded('s')} and s.user_epoch = m.session_epoch - 1 and s.company_epoch = c.session_epoch
    returning s.session_id`.execute(tx)
  return rows.length > 0
}

function endingOf(db: Executor, reason: EndReason, now: Date) {
  return db
    .updateTable('sessions as s')
    .from('accounts as a')
    .set({ ended_at: now, end_reason: reason })
    .whereRef('a.company_id', '=', 's.company_id')
    .whereRef('a.user_id', '=', 's.user_id')
    .where(isNotEnded('s'))
    .where(isOfThisEpoch('s', 'a'))
}

/** Undefined if the cookie has no live session. */
export async function endCookieSessionAcrossCompanies(db: Executor, cookieHash: Buffer, now: Date) {
  return await endingOf(db, 'logout', now)
    .where('s.cookie_hash', '=', cookieHash)
    .where('s.expires_at', '>', new Date(now.getTime() - CLOCK_SLACK_MS))
    .returning(['s.company_id as companyId', 's.session_id as sessionId', 's.user_id as userId'])
    .executeTakeFirst()
}

/** False if the user has no live session with this ID. */
export async function endSessionOfUser(
  db: Executor,
  companyId: string,
  { userId, sessionId, now }: { userId: string; sessionId: string; now: Date },
): Promise<boolean> {
  const { numUpdatedRows } = await endingOf(db, 'ended_by_user', now)
    .where('s.company_id', '=', companyId)
    .where('s.session_id', '=', sessionId)
    .where('s.user_id', '=', userId)
    .where('s.expires_at', '>', new Date(now.getTime() - CLOCK_SLACK_MS))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Ends the session, unless a refund has left a use in the quota. Returns the user's email if it ended. */
export async function endIfGuessed(
  tx: Tx,
  companyId: string,
  { sessionId, quota, now }: { sessionId: string; quota: Quota; now: Date },
): Promise<string | undefined> {
  const ended = await endingOf(tx, 'reauthentication_failed', now)
    .where('s.company_id', '=', companyId)
    .where('s.session_id', '=', sessionId)
    .where(endIfUsedUp(quota.limit, { counter: counterOf(quota), now }), 'is not', null)
    .returning('a.email')
    .executeTakeFirst()
  return ended?.email
}
