import { sql } from 'kysely'
import { auditEach } from '../audit/fragments.ts'
import { ACCOUNT_COLUMNS } from '../company/account.ts'
import { inOrder } from '../database/batch.ts'
import { aliased, plain } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { currentWindow, secondsLeft } from '../limits/fragments.ts'
import { mailEach } from '../mail/fragments.ts'
import { type RotationPolicy, type Verdict, verdict } from './rotation-fragments.ts'
import { SESSION_COLUMNS, type Session } from './session.ts'

/** Rotation: one statement decides about each refresh token and carries the decision out. */

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

/** What became of a rotation. `used` and `resetSeconds` tell where the session stands with its limit. */
export interface RotationOutcome {
  verdict: Verdict
  /** As it is after the rotation. */
  session: Session
  used: number
  resetSeconds: number
}

/** How many keys a session remembers. */
const MAX_KEYS = 64

/** The session as it is after the rotation. */
const sessionAfter = aliased('d', {
  ...SESSION_COLUMNS,
  generation: 'new_generation',
  issuedAt: 'new_issued_at',
  expiresAt: 'new_expires_at',
})

/**
 * Returns a function that refreshes sessions. One outcome an item, in order; null where there is no such session.
 * No two items can be of one session. How long ago a token was spent is told by the database's clock: the
 * instances' clocks can differ by more than the second that it is about.
 *
 * Each row is locked before `decided` looks at it, so the verdict stays true, and `after` is what the row will
 * be. The parts that follow only carry it out.
 */
export function createRotation(db: Executor, policy: RotationPolicy) {
  const decision = rotationOf(policy)
  return async (items: Rotation[]): Promise<(RotationOutcome | null)[]> => {
    const { rows } = await sql<RotationRow>`with item as (${listed(items)}), ${decision}`.execute(db)
    return inOrder(items.length, rows).map(
      (row) => row && { verdict: row.verdict, session: row, used: row.used, resetSeconds: row.resetSeconds },
    )
  }
}

type RotationRow = Session & Omit<RotationOutcome, 'session'> & { ord: number }

/** The statement from its items on. Nothing of it depends on them, so it is composed once. */
function rotationOf(policy: RotationPolicy) {
  const window = currentWindow(policy.limit, { age: sql`d.window_age`, uses: sql`d.window_rotations` })
  return sql`
    locked as (${lockedSessions}), decided as (
      select l.*, ${plain('a', ACCOUNT_COLUMNS)}, ${verdict(policy)} as verdict
      from locked l
      join accounts a on a.company_id = l.company_id and a.user_id = l.user_id
    ), after as (
      select d.*, d.generation + r.step as new_generation,
        case r.step when 1 then d.now else d.issued_at end as new_issued_at,
        case r.step when 1 then least(d.now + make_interval(secs => ${policy.ttlSeconds}), d.max_expires_at)
          else d.expires_at end as new_expires_at,
        ${window.age} as new_window_age, ${window.uses} + r.step as used
      from decided d cross join lateral (select (d.verdict = 'rotated')::int as step) r
    ), rotated as (${updated(policy)}), ended as (
      update sessions s set ended_at = d.now, end_reason = 'refresh_reuse'
      from decided d
      where s.company_id = d.company_id and s.session_id = d.session_id and d.verdict = 'reused'
    ), audited as (${auditRefused}), told as (${mailReused})
    select d.ord::int, d.verdict, d.used, ${secondsLeft(policy.limit, sql`d.new_window_age`)} as "resetSeconds",
      ${sessionAfter}, ${aliased('d', ACCOUNT_COLUMNS)}
    from after d`
}

/** The items as a table. */
function listed(items: Rotation[]) {
  return sql`
    select *, clock_timestamp() as db_now
    from unnest(
      ${items.map((item) => item.companyId)}::uuid[], ${items.map((item) => item.sessionId)}::uuid[],
      ${items.map((item) => item.userId)}::uuid[], ${items.map((item) => item.generation)}::int[],
      ${items.map((item) => item.key)}::bigint[], ${items.map((item) => item.now)}::timestamptz[],
      ${items.map((item) => item.auditId)}::uuid[], ${items.map((item) => item.ipAddress)}::text[]
    ) with ordinality as i (company_id, session_id, user_id, spent, key, now, audit_id, ip, ord)`
}

/** The items' sessions, locked in the order of their keys, so that no two statements wait for each other. */
const lockedSessions = sql`
  select ${plain('s', SESSION_COLUMNS)}, s.ended_at, s.recent_keys, s.window_started_at, s.window_rotations,
    i.spent, i.key, i.now, i.db_now, i.audit_id, i.ip, i.ord,
    -- A rotation that we waited for is later than our own clock reading.
    greatest(extract(epoch from i.db_now - s.rotated_at), 0) as age,
    extract(epoch from i.db_now - s.window_started_at) as window_age
  from item i
  join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
  where s.kind = 'token' and s.user_id = i.user_id
  order by s.company_id, s.session_id
  for update of s`

/** Moves the sessions on whose token is spent now. */
function updated({ idempotencyWindowSeconds }: RotationPolicy) {
  return sql`
    update sessions s set
      generation = d.new_generation,
      issued_at = d.new_issued_at,
      expires_at = d.new_expires_at,
      rotated_at = d.db_now,
      recent_keys = case when d.age < ${idempotencyWindowSeconds}
        then d.recent_keys[greatest(1, cardinality(d.recent_keys) - ${MAX_KEYS - 2}):] || d.key
        else array[d.key] end,
      window_started_at = case d.used when 1 then d.db_now else d.window_started_at end,
      window_rotations = d.used
    from after d
    where s.company_id = d.company_id and s.session_id = d.session_id and d.verdict = 'rotated'`
}

const auditRefused = auditEach(sql`decided where verdict in ('reused', 'raced')`, {
  companyId: sql`company_id`,
  auditId: sql`audit_id`,
  occurredAt: sql`now`,
  action: 'refresh',
  outcome: sql`verdict`,
  actor: sql`user_id::text`,
  sessionId: sql`session_id`,
  ipAddress: sql`ip`,
})

const mailReused = mailEach(sql`decided where verdict = 'reused'`, {
  companyId: sql`company_id`,
  mailId: sql`audit_id`,
  kind: 'refresh_reuse',
  recipient: sql`email`,
  data: sql`json_build_object('ipAddress', ip)`,
  createdAt: sql`now`,
})
