import { type RawBuilder, sql } from 'kysely'
import { ACCOUNT_COLUMNS, type Account } from '../company/account.ts'
import { inOrder } from '../database/batch.ts'
import { aliased, itemTable, plain } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { isKeyInForce } from '../token/repository.ts'
import { CHANGING_COLUMNS, SESSION_COLUMNS, type Session } from './session.ts'
import { endReason, endsAt, isNotEnded, isPasswordOver } from './session-fragments.ts'

/** `version` is a keyed hash of the state. `session` is null if the process remembers this version. */
export interface FoundSession {
  version: string
  session: Session | null
}

const endedBecause = endReason('s', 'a')
/** All that can change and that the columns depend on. Hashing the limits takes less time than working out the end. */
const state = sql`${plain('s', CHANGING_COLUMNS)}, ${endedBecause}, a.session_idle_seconds, a.session_max_age_seconds,
  ${plain('a', ACCOUNT_COLUMNS)}`
const columns = sql`${aliased('s', SESSION_COLUMNS)}, ${endedBecause} as "endReason", ${endsAt('s', 'a')} as "endsAt",
  ${aliased('a', ACCOUNT_COLUMNS)}`

export interface TokenItem {
  companyId: string
  sessionId: string
  keyId: string
  remembered: string | null
}

const tokenTable = itemTable<TokenItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  session_id: ['uuid', ({ sessionId }) => sessionId],
  key_id: ['text', ({ keyId }) => keyId],
  remembered: ['text', ({ remembered }) => remembered],
})

export async function findSessions(db: Executor, items: TokenItem[], seed: string) {
  const itsSession = sql`join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
    and ${isKeyInForce(sql`i.key_id`)}`
  return await find(db, items.length, sql`${tokenTable(items)} ${itsSession}`, seed)
}

export interface CookieItem {
  cookieHash: Buffer
  remembered: string | null
}

const cookieTable = itemTable<CookieItem>({
  cookie_hash: ['bytea', ({ cookieHash }) => cookieHash],
  remembered: ['text', ({ remembered }) => remembered],
})

/** One outcome per item, in order. A cookie does not name its company. */
export async function findSessionsByCookieAcrossCompanies(db: Executor, items: CookieItem[], seed: string) {
  const itsSession = sql`join sessions s on s.cookie_hash = i.cookie_hash`
  return await find(db, items.length, sql`${cookieTable(items)} ${itsSession}`, seed)
}

type Row = { ord: number; version: string } & (Session | { [Name in keyof Session]: null })

async function find(
  db: Executor,
  length: number,
  sessions: RawBuilder<unknown>,
  seed: string,
): Promise<(FoundSession | null)[]> {
  const { rows } = await sql<Row>`
    select i.ord::int, v.version, f.*
    from ${sessions}
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
    -- The columns only if the item has another version.
    cross join lateral (select hash_record_extended(row(${state}), ${seed}::bigint)::text as version) v
    left join lateral (select ${columns} where v.version is distinct from i.remembered) f on true`.execute(db)
  return inOrder(length, rows).map(
    (row) => row && { version: row.version, session: row.sessionId === null ? null : row },
  )
}

const digestTable = itemTable<Buffer>({ digest: ['bytea', (digest) => digest] })

export interface FoundPassword extends Account {
  passwordEpoch: number
  lastUsedAt: Date | null
}

/** One outcome per digest, in order: the service account whose password it is. A password names its company. */
export async function findServicePasswordsAcrossCompanies(db: Executor, digests: Buffer[]) {
  const { rows } = await sql<FoundPassword & { ord: number }>`
    select i.ord::int, ${aliased('a', ACCOUNT_COLUMNS)}, p.company_id as "companyId", p.user_id as "userId",
      p.password_epoch as "passwordEpoch", p.last_used_at as "lastUsedAt"
    from ${digestTable(digests)}
    join service_passwords p on p.digest = i.digest
    join accounts a on a.company_id = p.company_id and a.user_id = p.user_id
    where not ${isPasswordOver(sql`p.password_epoch`, 'a')}`.execute(db)
  return inOrder(digests.length, rows)
}

/** Only if no later hour is stored. */
export async function storeLastUse(
  db: Executor,
  companyId: string,
  { userId, passwordEpoch }: Pick<FoundPassword, 'userId' | 'passwordEpoch'>,
  hour: Date,
): Promise<void> {
  await db
    .updateTable('service_passwords')
    .set({ last_used_at: hour })
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('password_epoch', '=', passwordEpoch)
    .where(({ eb }) => eb('last_used_at', 'is', null).or('last_used_at', '<', hour))
    .execute()
}

/** Extends a cookie session, unless it has ended or another request has extended it. Returns when it ends now. */
export async function renewCookieSession(
  db: Executor,
  companyId: string,
  sessionId: string,
  { lastIssuedAt, issuedAt, expiresAt }: { lastIssuedAt: Date; issuedAt: Date; expiresAt: Date },
): Promise<Date | undefined> {
  const ends = sql`${endsAt('s', 'a')} as "endsAt"`
  const itself = sql`s.company_id = ${companyId} and s.session_id = ${sessionId}
    and a.company_id = s.company_id and a.user_id = s.user_id`
  const renewed = await sql<Pick<Session, 'endsAt'>>`
    update sessions s set issued_at = ${issuedAt}, expires_at = ${expiresAt}
    from accounts a
    where ${itself} and s.issued_at = ${lastIssuedAt} and ${isNotEnded('s')}
    returning ${ends}`.execute(db)
  if (renewed.rows[0]) return renewed.rows[0].endsAt
  const { rows } = await sql<Pick<Session, 'endsAt'>>`
    select ${ends} from sessions s, accounts a where ${itself}`.execute(db)
  return rows[0]?.endsAt
}
