import { sql } from 'kysely'
import { aliased, type RowOf } from '../database/columns.ts'
import type { Executor, Tx } from '../database/connect.ts'
import { hasEnded, isNotEnded, isOfThisEpoch } from './session-fragments.ts'

/** The live sessions of a user: their list, and what acts and proofs do with one of them. */

const OWN_COLUMNS = {
  id: 'session_id',
  kind: 'kind',
  createdAt: 'created_at',
  lastSeenAt: 'issued_at',
  userAgent: 'user_agent',
  ipAddress: 'ip_address',
} as const

/** Last used first. */
export async function listSessions(
  db: Executor,
  companyId: string,
  userId: string,
  { now, max }: { now: Date; max: number },
) {
  const { rows } = await sql<RowOf<'sessions', typeof OWN_COLUMNS>>`
    select ${aliased('s', OWN_COLUMNS)}
    from accounts a join sessions s on s.company_id = a.company_id and s.user_id = a.user_id
    where a.company_id = ${companyId} and a.user_id = ${userId}
      and s.ended_at is null and s.expires_at > ${now} and ${isOfThisEpoch('s', 'a')}
    order by s.issued_at desc
    limit ${max}`.execute(db)
  return rows
}

/** The permissions at this moment; undefined if the session has ended. Take locks that can be waited for in earlier statements. */
export async function lockSession(
  tx: Tx,
  companyId: string,
  { userId, sessionId }: { userId: string; sessionId: string },
  now: Date,
): Promise<string[] | undefined> {
  const { rows } = await sql<{ permissions: string[] }>`
    select a.permissions from sessions s
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.user_id = ${userId}
      and not ${hasEnded('s', 'a', sql`${now}::timestamptz`)}
    for share of s`.execute(tx)
  return rows[0]?.permissions
}

/** False if the session has ended, or has another cookie than `before`. Both are hashes. */
export async function proveByCookie(
  db: Executor,
  companyId: string,
  sessionId: string,
  { before, after, at, amr }: { before: Buffer | null; after: Buffer | null; at: Date; amr: string[] },
): Promise<boolean> {
  const { rows } = await sql`
    update sessions s set cookie_hash = ${after}::bytea, auth_time = ${at}, amr = ${amr}::text[]
    from accounts a
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.cookie_hash = ${before}::bytea
      and a.company_id = s.company_id and a.user_id = s.user_id
      and not ${hasEnded('s', 'a', sql`${at}::timestamptz`)}
    returning s.session_id`.execute(db)
  return rows.length > 0
}

/** Stores by which methods a live session was proven. The time of the proof stays. */
export async function storeMethods(tx: Tx, companyId: string, sessionId: string, amr: string[]) {
  await sql`
    update sessions s set amr = ${amr}::text[]
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and ${isNotEnded('s')}`.execute(tx)
}

export async function withdrawSecondFactor(tx: Tx, companyId: string, sessionId: string) {
  await sql`
    update sessions s set amr = array_remove(s.amr, 'mfa')
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and ${isNotEnded('s')}`.execute(tx)
}
