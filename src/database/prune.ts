import { sql } from 'kysely'
import type { Executor } from './connect.ts'

/**
 * Housekeeping: deletes what nobody needs any more, a bounded number of rows a statement, so that it never
 * locks for long. It can be interrupted, repeated and run by several at a time: they pass over each other's
 * rows. Audit entries and events stay.
 */

const DAY_MS = 86_400_000
/** How long it is kept after it has ended, lapsed, or been sent or given up. */
const KEPT_MS = {
  sessions: 30 * DAY_MS,
  mails: 7 * DAY_MS,
  // Instances' clocks differ, and a counter that is gone counts anew.
  counters: 300_000,
  tokens: 300_000,
}
const MAX_ROWS = 1_000
/** Sessions are looked at in the order of their key, since an index on their end would slow each refresh. */
const MAX_SESSIONS_SEEN = 5_000

/** How many rows of each kind were deleted. */
export interface Pruned {
  sessions: number
  tokens: number
  counters: number
  mails: number
}

/** Runs until nothing is left to delete, or the signal says so; then a later run goes on. */
export async function pruneAcrossCompanies(db: Executor, now: number, signal?: AbortSignal): Promise<Pruned> {
  const before = (kept: number) => new Date(now - kept)

  async function repeat(deleteSome: () => Promise<number>): Promise<number> {
    let deleted = 0
    for (let some = MAX_ROWS; some === MAX_ROWS && !signal?.aborted; deleted += some)
      some = await deleteSome()
    return deleted
  }

  async function pruneSessions(): Promise<number> {
    let deleted = 0
    let last = FIRST
    do {
      last = await pruneSessionsAfter(db, last, before(KEPT_MS.sessions))
      deleted += last.deleted
    } while (last.seen === MAX_SESSIONS_SEEN && !signal?.aborted)
    return deleted
  }

  return {
    tokens: await repeat(() =>
      count(sql`
        with lapsed as (
          select company_id, purpose, email, token_hash from one_time_tokens
          where expires_at < ${before(KEPT_MS.tokens)}
          limit ${MAX_ROWS} for update skip locked
        )
        delete from one_time_tokens t using lapsed l
        where t.company_id = l.company_id and t.purpose = l.purpose and t.email = l.email
          and t.token_hash = l.token_hash`),
    ),
    counters: await repeat(() =>
      count(sql`
        with lapsed as (
          select counter from rate_counters where window_ends_at < ${before(KEPT_MS.counters)}
          limit ${MAX_ROWS} for update skip locked
        )
        delete from rate_counters c using lapsed l where c.counter = l.counter`),
    ),
    mails: await repeat(() =>
      count(sql`
        with settled as (
          select company_id, mail_id from mail_outbox
          where coalesce(sent_at, failed_at) < ${before(KEPT_MS.mails)}
          limit ${MAX_ROWS} for update skip locked
        )
        delete from mail_outbox m using settled s where m.company_id = s.company_id and m.mail_id = s.mail_id`),
    ),
    sessions: await pruneSessions(),
  }

  async function count(statement: ReturnType<typeof sql>): Promise<number> {
    return Number((await statement.execute(db)).numAffectedRows ?? 0)
  }
}

interface SessionPage {
  company_id: string
  session_id: string
  seen: number
  deleted: number
}

const NIL = '00000000-0000-0000-0000-000000000000'
/** Before all sessions. */
const FIRST: SessionPage = { company_id: NIL, session_id: NIL, seen: 0, deleted: 0 }

/** Looks at the sessions that follow that one, and deletes those that ended before `before`. */
async function pruneSessionsAfter(db: Executor, last: SessionPage, before: Date): Promise<SessionPage> {
  const { rows } = await sql<SessionPage>`
    with page as (
      select company_id, session_id, least(ended_at, expires_at) as ended_at from sessions
      where (company_id, session_id) > (${last.company_id}::uuid, ${last.session_id}::uuid)
      order by company_id, session_id
      limit ${MAX_SESSIONS_SEEN}
    ), ended as (
      select s.company_id, s.session_id from page p
      join sessions s on s.company_id = p.company_id and s.session_id = p.session_id
      where p.ended_at < ${before}
      order by s.company_id, s.session_id
      for update of s skip locked
    ), gone as (
      delete from sessions s using ended e where s.company_id = e.company_id and s.session_id = e.session_id
      returning 1
    )
    select company_id, session_id, (select count(*)::int from page) as seen, (select count(*)::int from gone) as deleted
    from page order by company_id desc, session_id desc limit 1`.execute(db)
  return rows[0] ?? FIRST
}
