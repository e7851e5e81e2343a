import { sql } from 'kysely'
import { ACCOUNT_COLUMNS } from '../company/account.ts'
import { inOrder } from '../database/batch.ts'
import { aliased, itemTable, plain } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { isKeyInForce } from '../token/fragments.ts'
import { SESSION_COLUMNS, type Session } from './session.ts'
import { endReason, isNotEnded } from './session-fragments.ts'

/** Reads sessions with their accounts in one statement, in their state of this moment. */

/**
 * A session as a statement has found it. `version` is a hash of its state, keyed with a seed; `session` is null if the
 * item knows this version.
 */
export interface FoundSession {
  version: string
  session: Session | null
}

const endedBecause = endReason('s', 'a')
const state = sql`${plain('s', SESSION_COLUMNS)}, ${endedBecause}, ${plain('a', ACCOUNT_COLUMNS)}`
const columns = sql`${aliased('s', SESSION_COLUMNS)}, ${endedBecause} as "endReason", ${aliased('a', ACCOUNT_COLUMNS)}`

/** Joins the version of the state of session `s` with account `a`, as `v`; and as `f` the session, unless it is known. */
const unlessKnown = (seed: string) => sql`
  cross join lateral (select hash_record_extended(row(${state}), ${seed}::bigint)::text as version) v
  left join lateral (select ${columns} where v.version is distinct from i.known) f on true`

/** The ids in an access token, and the version of its session that the process has in memory. */
export interface TokenItem {
  companyId: string
  sessionId: string
  keyId: string
  known: string | null
}

const tokenTable = itemTable<TokenItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  session_id: ['uuid', ({ sessionId }) => sessionId],
  key_id: ['text', ({ keyId }) => keyId],
  known: ['text', ({ known }) => known],
})

/** Finds sessions by the ids in their tokens, if the key of the token is in force. One outcome per item, in order. */
export async function findSessions(
  db: Executor,
  items: TokenItem[],
  seed: string,
): Promise<(FoundSession | null)[]> {
  const { rows } = await sql<Row>`
    select i.ord::int, v.version, f.*
    from ${tokenTable(items)}
    join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id ${unlessKnown(seed)}
    where ${isKeyInForce(sql`i.key_id`)}`.execute(db)
  return toFound(items.length, rows)
}

export interface CookieItem {
  cookieHash: Buffer
  known: string | null
}

const cookieTable = itemTable<CookieItem>({
  cookie_hash: ['bytea', ({ cookieHash }) => cookieHash],
  known: ['text', ({ known }) => known],
})

/**
 * Finds sessions by the hashes of their cookies. One outcome per item, in order. A cookie does not name its
 * company, so this look-up cannot start from one.
 */
export async function findSessionsByCookieAcrossCompanies(
  db: Executor,
  items: CookieItem[],
  seed: string,
): Promise<(FoundSession | null)[]> {
  const { rows } = await sql<Row>`
    select i.ord::int, v.version, f.*
    from ${cookieTable(items)}
    join sessions s on s.cookie_hash = i.cookie_hash
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id ${unlessKnown(seed)}`.execute(db)
  return toFound(items.length, rows)
}

type Row = { ord: number; version: string } & (Session | { [Name in keyof Session]: null })

function toFound(length: number, rows: Row[]): (FoundSession | null)[] {
  return inOrder(length, rows).map(
    (row) => row && { version: row.version, session: row.sessionId === null ? null : row },
  )
}

/** Extends a cookie session; does nothing if it has ended or another request has renewed it. */
export async function renewCookieSession(
  db: Executor,
  companyId: string,
  sessionId: string,
  renewal: { lastIssuedAt: Date; issuedAt: Date; expiresAt: Date },
): Promise<void> {
  const { lastIssuedAt, issuedAt, expiresAt } = renewal
  await sql`
    update sessions s set issued_at = ${issuedAt}, expires_at = ${expiresAt}
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.issued_at = ${lastIssuedAt}
      and ${isNotEnded('s')}`.execute(db)
}
