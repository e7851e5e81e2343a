import { sql } from 'kysely'
import { aliased, type RowOf } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { isOfThisEpoch } from './session-fragments.ts'

const COLUMNS = {
  id: 'session_id',
  kind: 'kind',
  createdAt: 'created_at',
  lastSeenAt: 'issued_at',
  userAgent: 'user_agent',
  ipAddress: 'ip_address',
} as const

export type OwnSession = RowOf<'sessions', typeof COLUMNS>

/** The live sessions of a user, last used first; at most `max`. */
export async function listSessions(
  db: Executor,
  companyId: string,
  userId: string,
  { now, max }: { now: Date; max: number },
): Promise<OwnSession[]> {
  const { rows } = await sql<OwnSession>`
    select ${aliased('s', COLUMNS)}
    from accounts a join sessions s on s.company_id = a.company_id and s.user_id = a.user_id
    where a.company_id = ${companyId} and a.user_id = ${userId}
      and s.ended_at is null and s.expires_at > ${now} and ${isOfThisEpoch('s', 'a')}
    order by s.issued_at desc
    limit ${max}`.execute(db)
  return rows
}
