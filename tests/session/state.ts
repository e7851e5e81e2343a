import { sql } from 'kysely'
import { selectAudit } from '../support/audit.ts'
import type { Answer, TestService } from '../support/test-service.ts'

/** Sessions in the database, and what clients can see of them. */

export const ended = (reason: string) => ({ status: 401, body: { code: 'session_ended', reason } })

/** A response without the fields that differ between any two. */
export function visible({ status, headers, body }: Answer) {
  const { 'x-request-id': _id, date: _date, ...rest } = headers
  return { status, headers: rest, body: { ...body, requestId: 'requestId' } }
}

export const sessionRow = ({ db }: Pick<TestService, 'db'>, sessionId: string) =>
  db.selectFrom('sessions').selectAll().where('session_id', '=', sessionId).executeTakeFirstOrThrow()

export const auditOfSession = ({ db }: Pick<TestService, 'db'>, sessionId: string) =>
  selectAudit(db)
    .select(['action', 'outcome', 'actor', 'ip_address'])
    .where('session_id', '=', sessionId)
    .where('action', '<>', 'sign_in')
    .orderBy('audit_id')
    .execute()

export async function countLive(
  { db, clock }: Pick<TestService, 'db' | 'clock'>,
  { companyId, userId }: { companyId: string; userId: string },
): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from sessions s
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
      and a.user_epoch = s.user_epoch and a.company_epoch = s.company_epoch
    where s.company_id = ${companyId} and s.user_id = ${userId} and s.ended_at is null
      and s.expires_at > ${new Date(clock.now())}`.execute(db)
  return rows[0]?.count ?? 0
}

/** Adds copies of a session, for a different member if given. */
export async function copySession(
  { db }: Pick<TestService, 'db'>,
  sessionId: string,
  { count = 1, companyId = '', userId = '', id = '' } = {},
): Promise<void> {
  const otherwise = (given: string, usual: string) => (given ? sql`${given}::uuid` : sql.raw(usual))
  await sql`
    insert into sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at, max_expires_at,
      network, user_epoch, company_epoch)
    select ${otherwise(companyId, 'company_id')}, ${otherwise(id, 'gen_random_uuid()')}, ${otherwise(userId, 'user_id')},
      kind, created_at, issued_at, expires_at, max_expires_at, network, user_epoch, company_epoch
    from sessions, generate_series(1, ${count}) where session_id = ${sessionId}`.execute(db)
}
