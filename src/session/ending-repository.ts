import { type RawBuilder, sql } from 'kysely'
import { auditEach } from '../audit/fragments.ts'
import { aliased, type RowOf } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { EndReason } from '../database/schema.ts'

/** Ends sessions. An end is final: no statement updates a row that has `ended_at`. */

/** Clocks differ: a session that has just expired can be live for another instance, which could extend it. */
const CLOCK_SLACK = sql`interval '1 hour'`

interface Ending {
  reason: EndReason
  now: Date
}

/** Ends all live sessions of a company; returns how many. */
export async function endCompanySessions(db: Executor, companyId: string, ending: Ending): Promise<number> {
  return await endSessions(db, sql`company_id = ${companyId}`, ending)
}

/** Ends all live sessions of a user; returns how many. */
export async function endUserSessions(
  db: Executor,
  companyId: string,
  userId: string,
  ending: Ending,
): Promise<number> {
  return await endSessions(db, sql`company_id = ${companyId} and user_id = ${userId}`, ending)
}

/** Ends all live sessions of a user except one; returns how many. */
export async function endOtherSessions(
  db: Executor,
  companyId: string,
  userId: string,
  keptSessionId: string,
  ending: Ending,
): Promise<number> {
  const others = sql`company_id = ${companyId} and user_id = ${userId} and session_id <> ${keptSessionId}`
  return await endSessions(db, others, ending)
}

/** Locks the rows in key order, so that two statements never deadlock. */
async function endSessions(
  db: Executor,
  which: RawBuilder<unknown>,
  { reason, now }: Ending,
): Promise<number> {
  const { rows } = await sql<{ ended: number }>`
    with locked as (
      select company_id, session_id from sessions
      where ${which} and ended_at is null and expires_at > ${now}::timestamptz - ${CLOCK_SLACK}
      order by company_id, session_id
      for update
    ), ended as (
      update sessions s set ended_at = ${now}, end_reason = ${reason} from locked l
      where s.company_id = l.company_id and s.session_id = l.session_id and s.ended_at is null
      returning 1
    )
    select count(*)::int as ended from ended`.execute(db)
  return rows[0]?.ended ?? 0
}

export interface Logout {
  companyId: string
  sessionId: string
  now: Date
  auditId: string
  ipAddress: string
}

const auditLogout = auditEach(sql`ended`, {
  companyId: sql`company_id`,
  auditId: sql`audit_id`,
  occurredAt: sql`now`,
  action: sql`'logout'`,
  outcome: sql`'done'`,
  actor: sql`user_id::text`,
  sessionId: sql`session_id`,
  ipAddress: sql`ip`,
})

/**
 * Ends sessions at the request of their users. One outcome per item, in order: false if the session had ended
 * before. Two items must not name the same session.
 */
export async function logOutSessions(db: Executor, items: Logout[]): Promise<boolean[]> {
  const { rows } = await sql<{ ord: number }>`
    with locked as (
      select s.company_id, s.session_id, i.now, i.audit_id, i.ip, i.ord
      from unnest(
        ${items.map((item) => item.companyId)}::uuid[], ${items.map((item) => item.sessionId)}::uuid[],
        ${items.map((item) => item.now)}::timestamptz[], ${items.map((item) => item.auditId)}::uuid[],
        ${items.map((item) => item.ipAddress)}::text[]
      ) with ordinality as i (company_id, session_id, now, audit_id, ip, ord)
      join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
      where s.ended_at is null
      order by s.company_id, s.session_id
      for update of s
    ), ended as (
      update sessions s set ended_at = l.now, end_reason = 'logout'
      from locked l where s.company_id = l.company_id and s.session_id = l.session_id
      returning l.*, s.user_id
    ), audited as (${auditLogout})
    select ord::int from ended`.execute(db)
  const ended = items.map(() => false)
  for (const { ord } of rows) ended[ord - 1] = true
  return ended
}

const ENDED_COLUMNS = { companyId: 'company_id', sessionId: 'session_id', userId: 'user_id' } as const

/** Ends the session of a cookie, even an expired one; undefined if there is none or it has already ended. */
export async function endCookieSessionAcrossCompanies(
  db: Executor,
  cookieHash: Buffer,
  { reason, now }: Ending,
): Promise<RowOf<'sessions', typeof ENDED_COLUMNS> | undefined> {
  const { rows } = await sql<RowOf<'sessions', typeof ENDED_COLUMNS>>`
    update sessions s set ended_at = ${now}, end_reason = ${reason}
    where s.cookie_hash = ${cookieHash} and s.ended_at is null
    returning ${aliased('s', ENDED_COLUMNS)}`.execute(db)
  return rows[0]
}

/** Ends a live session of a user; false if the user has none with this id. */
export async function endOwnSession(
  db: Executor,
  companyId: string,
  userId: string,
  sessionId: string,
  { reason, now }: Ending,
): Promise<boolean> {
  const ended = await db
    .updateTable('sessions')
    .set({ ended_at: now, end_reason: reason })
    .where('company_id', '=', companyId)
    .where('session_id', '=', sessionId)
    .where('user_id', '=', userId)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', sql<Date>`${now}::timestamptz - ${CLOCK_SLACK}`)
    .returning('session_id')
    .executeTakeFirst()
  return ended !== undefined
}

/** Whether no statement has ended the session; it can have expired. */
export async function isOpen(db: Executor, companyId: string, sessionId: string): Promise<boolean> {
  const row = await db
    .selectFrom('sessions')
    .select('session_id')
    .where('company_id', '=', companyId)
    .where('session_id', '=', sessionId)
    .where('ended_at', 'is', null)
    .executeTakeFirst()
  return row !== undefined
}
