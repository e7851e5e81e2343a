import { sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import {
  endsAt,
  hasEnded,
  isNotEnded,
  isOfThisEpoch,
  type KnownClient,
  learning,
} from './session-fragments.ts'

/** Service accounts that sign in instead of refreshing can have very many sessions. */
const MAX_LISTED = 1_000

/** Last used first. */
export async function listSessions(db: Executor, companyId: string, userId: string, now: Date) {
  return await db
    .selectFrom('accounts as a')
    .innerJoin('sessions as s', (join) =>
      join.onRef('s.company_id', '=', 'a.company_id').onRef('s.user_id', '=', 'a.user_id'),
    )
    .select([
      's.session_id as id',
      's.kind',
      's.created_at as createdAt',
      's.issued_at as lastSeenAt',
      's.user_agent as userAgent',
      's.ip_address as ipAddress',
    ])
    .where('a.company_id', '=', companyId)
    .where('a.user_id', '=', userId)
    .where('s.ended_at', 'is', null)
    .where(endsAt('s', 'a'), '>', now)
    .where(isOfThisEpoch('s', 'a'))
    .orderBy('s.issued_at', 'desc')
    .limit(MAX_LISTED)
    .execute()
}

/** The current permissions; undefined if the session has ended. Take locks that can block in earlier statements. */
export async function lockSession(
  tx: Tx,
  companyId: string,
  { userId, sessionId }: { userId: string; sessionId: string },
  now: Date,
): Promise<string[] | undefined> {
  const live = await tx
    .selectFrom('sessions as s')
    .innerJoin('accounts as a', (join) =>
      join.onRef('a.company_id', '=', 's.company_id').onRef('a.user_id', '=', 's.user_id'),
    )
    .select('a.all_permissions as permissions')
    .where('s.company_id', '=', companyId)
    .where('s.session_id', '=', sessionId)
    .where('s.user_id', '=', userId)
    .where(({ not }) => not(hasEnded('s', 'a', sql`${now}::timestamptz`)))
    .forShare('s')
    .executeTakeFirst()
  return live?.permissions
}

/** False if the session has ended or has a different cookie. `before` and `after` are hashes. */
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

/** Leaves `auth_time` unchanged. */
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

export async function listKnownClients(db: Executor, companyId: string, userId: string) {
  return await db
    .selectFrom('known_clients')
    .select(['kind', 'digest', 'known_until as knownUntil'])
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .execute()
}

export async function learnClients(
  tx: Tx,
  companyId: string,
  { userId, learns, until }: { userId: string; learns: KnownClient[]; until: Date },
): Promise<void> {
  await sql`
    with learnt as (
      select ${companyId}::uuid as company_id, ${userId}::uuid as user_id, kind, digest,
        ${until}::timestamptz as known_until
      from unnest(${learns.map(({ kind }) => kind)}::text[], ${learns.map(({ digest }) => digest)}::bytea[])
        as l (kind, digest)
    ), ${learning}
    select`.execute(tx)
}

export async function forgetClients(tx: Tx, companyId: string, userId: string): Promise<void> {
  await tx
    .deleteFrom('known_clients')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .execute()
}
