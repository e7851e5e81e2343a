import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteLapsed, deleteOfCompany } from '../database/prune.ts'

const SESSIONS = { table: 'sessions', key: ['company_id', 'session_id'] } as const
const KNOWN_CLIENTS = { table: 'known_clients', key: ['company_id', 'user_id', 'kind', 'digest'] } as const

/** Rows per statement, read in key order: an index on the end of sessions would slow down each refresh. */
const MAX_SEEN = 5_000

/** The progress of a pruning: the last session that it has read. */
interface PrunedSessions {
  companyId: string
  sessionId: string
  deleted: number
  /** Whether there can be sessions after it. */
  hasMore: boolean
}

const NIL = '00000000-0000-0000-0000-000000000000'
/** Where a pruning starts. */
export const BEFORE_ALL: PrunedSessions = { companyId: NIL, sessionId: NIL, deleted: 0, hasMore: true }

/** Deletes at most `max` networks and devices that were known until `before`; returns how many. */
export async function pruneKnownClientsAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, KNOWN_CLIENTS, sql`known_until < ${before}`, max)
}

/** Reads the next sessions after `last`, and deletes those that ended or expired before `before`. */
export async function pruneSessionsAcrossCompanies(
  db: Executor,
  last: PrunedSessions,
  before: Date,
): Promise<PrunedSessions> {
  const { rows } = await sql<PrunedSessions>`
    with page as (
      select company_id, session_id, least(ended_at, expires_at) as ended_at from sessions
      where (company_id, session_id) > (${last.companyId}::uuid, ${last.sessionId}::uuid)
      order by company_id, session_id
      limit ${MAX_SEEN}
    ), ended as (
      select s.company_id, s.session_id from page p
      join sessions s on s.company_id = p.company_id and s.session_id = p.session_id
      where p.ended_at < ${before}
      order by s.company_id, s.session_id
      for update of s skip locked
    ), gone as (
      delete from sessions s using ended e
      where s.company_id = e.company_id and s.session_id = e.session_id
      returning 1
    )
    select company_id as "companyId", session_id as "sessionId",
      (select count(*)::int from gone) as deleted, (select count(*) from page) = ${MAX_SEEN} as "hasMore"
    from page order by company_id desc, session_id desc limit 1`.execute(db)
  return rows[0] ?? { ...last, deleted: 0, hasMore: false }
}

/** Deletes at most `max` sessions of a company, in key order; returns how many. */
export async function deleteSessions(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, SESSIONS, max)
}
