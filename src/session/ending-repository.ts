import { sql } from 'kysely'
import { aliased, type RowOf } from '../database/columns.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { EndReason } from '../errors.ts'
import { endIfUsedUp } from '../limits/fragments.ts'
import { counterOf, type Quota } from '../limits/subject.ts'
import { isNotEnded, isOfThisEpoch } from './session-fragments.ts'

/** An end is final: no row with `ended_at` is updated, and no epoch moves back. Lock order: company, user, session. */

/** Clocks differ: another instance could still extend a session that has expired by this clock. */
const CLOCK_SLACK = sql`interval '1 hour'`

interface Ending {
  reason: EndReason
  now: Date
}

/** Ends all sessions of a company in one write; false if there is no such company. */
export async function endCompanySessions(db: Executor, companyId: string, reason: EndReason) {
  const moved = await db
    .updateTable('companies')
    .set(({ eb }) => ({ session_epoch: eb('session_epoch', '+', 1), session_epoch_reason: reason }))
    .where('company_id', '=', companyId)
    .returning('company_id')
    .executeTakeFirst()
  return moved !== undefined
}

export async function lockCompany(tx: Tx, companyId: string): Promise<void> {
  await sql`select from companies where company_id = ${companyId} for no key update`.execute(tx)
}

/** Ends all sessions of a company except one, which gets the new epoch. */
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

/** Ends all sessions of a user in one write; false if the company has no such user. */
export async function endUserSessions(db: Executor, companyId: string, userId: string, reason: EndReason) {
  const moved = await db
    .updateTable('users')
    .set(({ eb }) => ({ session_epoch: eb('session_epoch', '+', 1), session_epoch_reason: reason }))
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .returning('user_id')
    .executeTakeFirst()
  return moved !== undefined
}

/** Ends all sessions of a user except one, which gets the new epoch. False if that one has ended: then roll back. */
export async function endOtherSessions(
  tx: Tx,
  companyId: string,
  userId: string,
  keptSessionId: string,
  reason: EndReason,
): Promise<boolean> {
  const { rows } = await sql`
    with moved as (
      update users set session_epoch = session_epoch + 1, session_epoch_reason = ${reason}
      where company_id = ${companyId} and user_id = ${userId}
      returning company_id, session_epoch
    )
    update sessions s set user_epoch = m.session_epoch
    from moved m join companies c on c.company_id = m.company_id
    where s.company_id = ${companyId} and s.session_id = ${keptSessionId} and s.user_id = ${userId}
      and ${isNotEnded('s')} and s.user_epoch = m.session_epoch - 1 and s.company_epoch = c.session_epoch
    returning s.session_id`.execute(tx)
  return rows.length > 0
}

const ENDED_COLUMNS = { companyId: 'company_id', sessionId: 'session_id', userId: 'user_id' } as const

/** Undefined if the cookie has no live session. */
export async function endCookieSessionAcrossCompanies(
  db: Executor,
  cookieHash: Buffer,
  { reason, now }: Ending,
): Promise<RowOf<'sessions', typeof ENDED_COLUMNS> | undefined> {
  const { rows } = await sql<RowOf<'sessions', typeof ENDED_COLUMNS>>`
    update sessions s set ended_at = ${now}, end_reason = ${reason}
    from accounts a
    where s.cookie_hash = ${cookieHash} and a.company_id = s.company_id and a.user_id = s.user_id
      and ${isNotEnded('s')} and s.expires_at > ${now}::timestamptz - ${CLOCK_SLACK} and ${isOfThisEpoch('s', 'a')}
    returning ${aliased('s', ENDED_COLUMNS)}`.execute(db)
  return rows[0]
}

/** False if the user has no live session with this id. */
export async function endOwnSession(
  db: Executor,
  companyId: string,
  userId: string,
  sessionId: string,
  { reason, now }: Ending,
): Promise<boolean> {
  const { rows } = await sql`
    update sessions s set ended_at = ${now}, end_reason = ${reason}
    from accounts a
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.user_id = ${userId}
      and a.company_id = s.company_id and a.user_id = s.user_id
      and ${isNotEnded('s')} and s.expires_at > ${now}::timestamptz - ${CLOCK_SLACK} and ${isOfThisEpoch('s', 'a')}
    returning s.session_id`.execute(db)
  return rows.length > 0
}

/** Unless the quota has a use left, because one was refunded. Returns the email of the session's user if this ended it. */
export async function endIfGuessed(
  tx: Tx,
  companyId: string,
  sessionId: string,
  quota: Quota,
  now: Date,
): Promise<string | undefined> {
  const isUsedUp = endIfUsedUp(quota.limit, { counter: counterOf(quota), now })
  const { rows } = await sql<{ email: string }>`
    update sessions s set ended_at = ${now}, end_reason = 'reauthentication_failed'
    from accounts a
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and ${isNotEnded('s')}
      and a.company_id = s.company_id and a.user_id = s.user_id and ${isOfThisEpoch('s', 'a')}
      and ${isUsedUp} is not null
    returning a.email`.execute(tx)
  return rows[0]?.email
}
