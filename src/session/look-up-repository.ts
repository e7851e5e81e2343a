import { sql } from 'kysely'
import { ACCOUNT_COLUMNS } from '../company/account.ts'
import { inOrder } from '../database/batch.ts'
import { aliased, itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { isKeyInForce } from '../token/fragments.ts'
import { SESSION_COLUMNS, type Session } from './session.ts'
import { endReason } from './session-fragments.ts'

/** Reads sessions with their accounts in one statement, in their state of this moment. */

export type FoundSession = Session | null

const columns = sql`${aliased('s', SESSION_COLUMNS)}, ${endReason('s', 'a')} as "endReason",
  ${aliased('a', ACCOUNT_COLUMNS)}`

/** The ids in an access token. */
export interface TokenItem {
  companyId: string
  sessionId: string
  keyId: string
}

const tokenTable = itemTable<TokenItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  session_id: ['uuid', ({ sessionId }) => sessionId],
  key_id: ['text', ({ keyId }) => keyId],
})

/** Finds sessions by the ids in their tokens, if the key of the token is in force. One outcome per item, in order. */
export async function findSessions(db: Executor, items: TokenItem[]): Promise<FoundSession[]> {
  const { rows } = await sql<Session & { ord: number }>`
    select i.ord::int, ${columns}
    from ${tokenTable(items)}
    join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
    where ${isKeyInForce(sql`i.key_id`)}`.execute(db)
  return inOrder(items.length, rows)
}

/**
 * Finds sessions by the hashes of their cookies. One outcome per item, in order. A cookie does not name its
 * company, so this look-up cannot start from one.
 */
export async function findSessionsByCookieAcrossCompanies(
  db: Executor,
  cookieHashes: Buffer[],
): Promise<FoundSession[]> {
  const { rows } = await sql<Session & { ord: number }>`
    select i.ord::int, ${columns}
    from unnest(${cookieHashes}::bytea[]) with ordinality as i (cookie_hash, ord)
    join sessions s on s.cookie_hash = i.cookie_hash
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id`.execute(db)
  return inOrder(cookieHashes.length, rows)
}

/** Extends a cookie session; does nothing if it has ended or another request has renewed it. */
export async function renewCookieSession(
  db: Executor,
  companyId: string,
  sessionId: string,
  renewal: { lastIssuedAt: Date; issuedAt: Date; expiresAt: Date },
): Promise<void> {
  await db
    .updateTable('sessions')
    .set({ issued_at: renewal.issuedAt, expires_at: renewal.expiresAt })
    .where('company_id', '=', companyId)
    .where('session_id', '=', sessionId)
    .where('ended_at', 'is', null)
    .where('issued_at', '=', renewal.lastIssuedAt)
    .execute()
}
