import { type Selectable, sql } from 'kysely'
import { type AuditEntry, auditIfAny } from '../database/audit.ts'
import { inOrder } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import type { AccountRow, Database, EndReason, SessionKind } from '../database/schema.ts'

/**
 * Sessions. One statement decides each transition, and `ended` is final: no statement here touches a row
 * that has ended_at. Statements that lock several rows lock them in the order of their keys, so that no
 * two of them can wait for each other.
 */

export type SessionRow = Pick<
  Selectable<Database['sessions']>,
  | 'company_id'
  | 'session_id'
  | 'user_id'
  | 'kind'
  | 'generation'
  | 'created_at'
  | 'issued_at'
  | 'expires_at'
  | 'max_expires_at'
  | 'end_reason'
>
export type SessionWithAccount = SessionRow & AccountRow

/** A session as it was found, with its account; null if there is none. */
export type FoundSession = SessionWithAccount | null

const sessionColumns = sql`s.company_id, s.session_id, s.user_id, s.kind, s.generation, s.created_at, s.issued_at,
  s.expires_at, s.max_expires_at, s.end_reason`
const accountColumns = sql`a.email, a.name, a.role, a.assignments, a.user_status, a.permissions, a.company_name,
  a.company_status, a.subscription_status, a.plan, a.current_period_end, a.features`

/** Finds sessions by their ids, one outcome an item, in order. */
export async function findSessions(
  db: Executor,
  items: { companyId: string; sessionId: string }[],
): Promise<FoundSession[]> {
  const { rows } = await sql<SessionWithAccount & { ord: number }>`
    select i.ord::int, ${sessionColumns}, ${accountColumns}
    from unnest(${items.map(({ companyId }) => companyId)}::uuid[], ${items.map(({ sessionId }) => sessionId)}::uuid[])
      with ordinality as i (company_id, session_id, ord)
    join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id`.execute(db)
  return inOrder(items.length, rows)
}

/**
 * Finds sessions by the hashes of their cookies, one outcome an item, in order. The one look-up that cannot
 * start from a company: the cookie is opaque.
 */
export async function findSessionsByCookieAcrossCompanies(
  db: Executor,
  cookieHashes: Buffer[],
): Promise<FoundSession[]> {
  const { rows } = await sql<SessionWithAccount & { ord: number }>`
    select i.ord::int, ${sessionColumns}, ${accountColumns}
    from unnest(${cookieHashes}::bytea[]) with ordinality as i (cookie_hash, ord)
    join sessions s on s.cookie_hash = i.cookie_hash
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id`.execute(db)
  return inOrder(cookieHashes.length, rows)
}

export interface NewSession {
  sessionId: string
  userId: string
  kind: SessionKind
  cookieHash: Buffer | null
  createdAt: Date
  expiresAt: Date
  maxExpiresAt: Date
  userAgent: string | null
  ipAddress: string
  /** The hash that the password was checked against. */
  passwordHash: string
}

/**
 * Opens a session if, at this moment, user and company are active and the password is still the one that
 * was checked. Both rows stay locked until the commit, so that a disabling that runs at the same time
 * either prevents the session or sees and ends it.
 */
export async function openSession(
  db: Executor,
  companyId: string,
  session: NewSession,
  audit: AuditEntry,
): Promise<boolean> {
  const { rows } = await sql`
    with allowed as (
      select u.company_id, u.user_id
      from users u join companies c on c.company_id = u.company_id
      where u.company_id = ${companyId} and u.user_id = ${session.userId}
        and u.status = 'active' and c.status = 'active' and u.password_hash = ${session.passwordHash}
      for share of u, c
    ), opened as (
      insert into sessions (company_id, session_id, user_id, kind, cookie_hash, created_at, issued_at, expires_at,
      max_expires_at, user_agent, ip_address)
      select company_id, ${session.sessionId}, user_id, ${session.kind}, ${session.cookieHash}::bytea,
        ${session.createdAt}, ${session.createdAt}, ${session.expiresAt}, ${session.maxExpiresAt},
        ${session.userAgent}, ${session.ipAddress}
      from allowed
      returning session_id
    ), audited as (${auditIfAny('opened', companyId, audit)})
    select from opened`.execute(db)
  return rows.length > 0
}

/** Moves the end of a cookie session; nothing if it has ended meanwhile or was renewed by another request. */
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

export interface Rotation {
  companyId: string
  sessionId: string
  userId: string
  /** The generation of the refresh token that was sent. */
  generation: number
  /** Hash of the Idempotency-Key, a signed 64-bit integer in decimal; null without one. */
  key: string | null
  now: Date
  /** For the audit entry, if the rotation is refused for reuse. */
  auditId: string
  ipAddress: string
}

export interface RotationPolicy {
  ttlSeconds: number
  raceSeconds: number
  graceSeconds: number
  idempotencyWindowSeconds: number
  limit: { max: number; windowSeconds: number }
}

/**
 * - rotated: the session moved to the next generation
 * - repeated: it had moved before, and this caller may have the same successor again
 * - ended: the session has ended, or its user or company may not sign in
 * - conflict: the key was used with an earlier token of the session
 * - limited: too many rotations in the window
 * - raced: the token was spent a moment ago; nothing happens to the session
 * - reused: the token was spent longer ago; the session ended just now
 */
export type RotationOutcome =
  | { outcome: 'rotated' | 'repeated'; session: SessionWithAccount; used: number; resetSeconds: number }
  | { outcome: 'ended'; session: SessionWithAccount }
  | { outcome: 'conflict' | 'raced' | 'reused' }
  | { outcome: 'limited'; resetSeconds: number }
  | { outcome: 'unknown' }

/**
 * Refreshes sessions, one outcome an item, in order; no two items may be of
 * one session. How long ago a token was spent is told by the database's clock: the instances' clocks may
 * differ by more than the second that it is about.
 *
 * Each row is locked before `decided` looks at it, so what that says stays true, and `after` is what the row
 * will be; the updates, audit entries and mails only carry it out. `seen` is the row as of the statement's
 * beginning: a token that was unspent then was spent while we waited for the lock, which is a race, however
 * long the wait.
 */
export async function rotateSessions(
  db: Executor,
  items: Rotation[],
  policy: RotationPolicy,
): Promise<RotationOutcome[]> {
  const { rows } = await sql<
    SessionWithAccount & {
      ord: number
      outcome: RotationOutcome['outcome']
      used: number
      reset_seconds: number
    }
  >`
    with item as (
      select *, clock_timestamp() as db_now
      from unnest(
        ${items.map((item) => item.companyId)}::uuid[], ${items.map((item) => item.sessionId)}::uuid[],
        ${items.map((item) => item.userId)}::uuid[], ${items.map((item) => item.generation)}::int[], ${items.map((item) => item.key)}::bigint[],
        ${items.map((item) => item.now)}::timestamptz[], ${items.map((item) => item.auditId)}::uuid[],
        ${items.map((item) => item.ipAddress)}::text[]
      ) with ordinality as i (company_id, session_id, user_id, spent, key, now, audit_id, ip, ord)
    ), locked as (
      select ${sessionColumns}, s.ended_at, s.recent_keys, s.window_started_at, s.window_rotations,
        i.spent, i.key, i.now, i.db_now, i.audit_id, i.ip, i.ord,
        -- A rotation that we waited for is later than our own clock reading.
        greatest(extract(epoch from i.db_now - s.rotated_at), 0) as age,
        extract(epoch from i.db_now - s.window_started_at) as window_age
      from item i
      join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
      where s.kind = 'token' and s.user_id = i.user_id
      order by s.company_id, s.session_id
      for update of s
    ), decided as (
      select l.*, ${accountColumns},
        case
          when l.ended_at is not null or l.expires_at <= l.now
            or a.user_status <> 'active' or a.company_status <> 'active' then 'ended'
          when l.spent = l.generation then case
            when l.key = any(l.recent_keys) and l.age < ${policy.idempotencyWindowSeconds} then 'conflict'
            when l.window_rotations >= ${policy.limit.max} and l.window_age < ${policy.limit.windowSeconds} then 'limited'
            else 'rotated' end
          when l.spent = l.generation - 1 and (
            l.key = l.recent_keys[cardinality(l.recent_keys)] and l.age < ${policy.idempotencyWindowSeconds}
            or l.key is null and l.recent_keys[cardinality(l.recent_keys)] is null and l.age < ${policy.graceSeconds}
          ) then 'repeated'
          when l.spent = l.generation - 1 and (l.age < ${policy.raceSeconds} or l.spent = (
            select seen.generation from sessions seen
            where seen.company_id = l.company_id and seen.session_id = l.session_id
          )) then 'raced'
          when l.spent < l.generation then 'reused'
          else 'unknown'
        end as outcome
      from locked l
      join accounts a on a.company_id = l.company_id and a.user_id = l.user_id
    ), after as (
      select d.*, d.generation + r.step as new_generation,
        case r.step when 1 then d.now else d.issued_at end as new_issued_at,
        case r.step when 1 then least(d.now + make_interval(secs => ${policy.ttlSeconds}), d.max_expires_at)
          else d.expires_at end as new_expires_at,
        -- Where the window has passed, or never began, a new one begins now.
        case when d.window_age < ${policy.limit.windowSeconds} then d.window_age else 0 end as new_window_age,
        case when d.window_age < ${policy.limit.windowSeconds} then d.window_rotations else 0 end + r.step as used
      from decided d cross join lateral (select (d.outcome = 'rotated')::int as step) r
    ), rotated as (
      update sessions s set
        generation = d.new_generation,
        issued_at = d.new_issued_at,
        expires_at = d.new_expires_at,
        rotated_at = d.db_now,
        recent_keys = case when d.age < ${policy.idempotencyWindowSeconds}
          then d.recent_keys[greatest(1, cardinality(d.recent_keys) - 62):] || d.key else array[d.key] end,
        window_started_at = case d.used when 1 then d.db_now else d.window_started_at end,
        window_rotations = d.used
      from after d
      where s.company_id = d.company_id and s.session_id = d.session_id and d.outcome = 'rotated'
    ), ended as (
      update sessions s set ended_at = d.now, end_reason = 'refresh_reuse'
      from decided d
      where s.company_id = d.company_id and s.session_id = d.session_id and d.outcome = 'reused'
    ), audited as (
      insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor, session_id, ip_address)
      select company_id, audit_id, now, 'refresh', outcome, user_id::text, session_id, ip
      from decided where outcome in ('reused', 'raced')
    ), told as (
      insert into mail_outbox (company_id, mail_id, kind, recipient, facts, created_at, next_attempt_at)
      select company_id, audit_id, 'refresh_reuse', email, json_build_object('ipAddress', ip), now, now
      from decided where outcome = 'reused'
    )
    select ord::int, outcome, company_id, session_id, user_id, kind, new_generation as generation, created_at,
      new_issued_at as issued_at, new_expires_at as expires_at, max_expires_at, end_reason, used,
      greatest(1, ceil(${policy.limit.windowSeconds} - new_window_age))::int as reset_seconds,
      email, name, role, assignments, user_status, permissions, company_name, company_status,
      subscription_status, plan, current_period_end, features
    from after`.execute(db)

  return inOrder(items.length, rows).map((row): RotationOutcome => {
    if (!row) return { outcome: 'unknown' }
    const { outcome, used, reset_seconds: resetSeconds } = row
    if (outcome === 'rotated' || outcome === 'repeated') return { outcome, session: row, used, resetSeconds }
    if (outcome === 'ended') return { outcome, session: row }
    if (outcome === 'limited') return { outcome, resetSeconds }
    return { outcome }
  })
}

/** By the clock of another instance a session that has just expired may be alive, and use would renew it. */
const CLOCK_SLACK = sql`interval '1 hour'`

export interface Ending {
  reason: EndReason
  now: Date
}

export interface Logout {
  companyId: string
  sessionId: string
  now: Date
  auditId: string
  ipAddress: string
}

/**
 * Ends sessions at their users' own wish, and says of each, in order, whether it was alive; no two items may
 * be of one session.
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
    ), audited as (
      insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor, session_id, ip_address)
      select company_id, audit_id, now, 'logout', 'done', user_id::text, session_id, ip from ended
    )
    select ord::int from ended`.execute(db)
  const ended = items.map(() => false)
  for (const { ord } of rows) ended[ord - 1] = true
  return ended
}

/** Ends the session that a cookie stands for; returns whose it was, if there was one. */
export async function endCookieSessionAcrossCompanies(
  db: Executor,
  cookieHash: Buffer,
  { reason, now }: Ending,
): Promise<{ company_id: string; session_id: string; user_id: string } | undefined> {
  return await db
    .updateTable('sessions')
    .set({ ended_at: now, end_reason: reason })
    .where('cookie_hash', '=', cookieHash)
    .where('ended_at', 'is', null)
    .returning(['company_id', 'session_id', 'user_id'])
    .executeTakeFirst()
}

/**
 * Ends all live sessions of a company, or of one of its users, except that one; returns how many.
 */
export async function endSessions(
  db: Executor,
  companyId: string,
  userId: string | null,
  { reason, now }: Ending,
  exceptSessionId: string | null = null,
): Promise<number> {
  const { rows } = await sql<{ ended: number }>`
    with locked as (
      select company_id, session_id from sessions
      where company_id = ${companyId} and (${userId}::uuid is null or user_id = ${userId}::uuid)
        and ended_at is null and expires_at > ${now}::timestamptz - ${CLOCK_SLACK}
        and session_id is distinct from ${exceptSessionId}::uuid
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

export type OwnSession = Pick<
  Selectable<Database['sessions']>,
  'session_id' | 'kind' | 'created_at' | 'issued_at' | 'user_agent' | 'ip_address'
>

/** A user's live sessions, those used last first. */
export async function listSessions(
  db: Executor,
  companyId: string,
  userId: string,
  { now, max }: { now: Date; max: number },
): Promise<OwnSession[]> {
  return await db
    .selectFrom('sessions')
    .select(['session_id', 'kind', 'created_at', 'issued_at', 'user_agent', 'ip_address'])
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('ended_at', 'is', null)
    .where('expires_at', '>', now)
    .orderBy('issued_at', 'desc')
    .limit(max)
    .execute()
}

/** Ends a live session of that user; false if they have none with this id. */
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

/** Whether nobody has ended the session; its time may be over. */
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

/** Makes void what was mailed to somebody who had forgotten their password. */
export async function deleteResetTokens(db: Executor, companyId: string, email: string): Promise<void> {
  await sql`
    with locked as (
      select token_hash from one_time_tokens
      where company_id = ${companyId} and purpose = 'reset' and email = ${email}
      order by token_hash
      for update
    )
    delete from one_time_tokens t using locked l
    where t.company_id = ${companyId} and t.purpose = 'reset' and t.email = ${email}
      and t.token_hash = l.token_hash`.execute(db)
}
