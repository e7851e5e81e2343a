import { sql } from 'kysely'
import { auditEach } from '../audit/fragments.ts'
import { ACCOUNT_COLUMNS } from '../company/account.ts'
import { inOrder } from '../database/batch.ts'
import { aliased, itemTable, plain } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { currentWindow, secondsLeft } from '../limits/counters-repository.ts'
import { mailEach } from '../mail/repository.ts'
import {
  generationOfProof,
  isCounted,
  type RotationPolicy,
  type Verdict,
  verdict,
} from './rotation-fragments.ts'
import { SESSION_COLUMNS, type Session } from './session.ts'
import { endReason, endsAt } from './session-fragments.ts'

/** Rotation: one statement decides on each refresh token and carries out the decision. */

export interface Rotation {
  companyId: string
  sessionId: string
  userId: string
  /** Null for a re-authentication, which comes with an access token. */
  generation: number | null
  /** Hash of the Idempotency-Key, a signed 64-bit integer in decimal. */
  key: string | null
  now: Date
  /** For the audit entry about reuse or a race, and the email about reuse. */
  auditId: string
  ipAddress: string
}

const rotationTable = itemTable<Rotation>({
  company_id: ['uuid', ({ companyId }) => companyId],
  session_id: ['uuid', ({ sessionId }) => sessionId],
  user_id: ['uuid', ({ userId }) => userId],
  token_generation: ['int', ({ generation }) => generation],
  key: ['bigint', ({ key }) => key],
  now: ['timestamptz', ({ now }) => now],
  audit_id: ['uuid', ({ auditId }) => auditId],
  ip: ['text', ({ ipAddress }) => ipAddress],
})

export interface RotationOutcome {
  verdict: Verdict
  session: Session
  used: number
  resetSeconds: number
}

export interface Proof {
  amr: string[]
}

const MAX_REMEMBERED = 300

const sessionAfter = aliased('d', {
  ...SESSION_COLUMNS,
  generation: 'new_generation',
  issuedAt: 'new_issued_at',
  expiresAt: 'new_expires_at',
  provenAt: 'new_auth_time',
  amr: 'new_amr',
})

/**
 * One outcome per item, in order; null if there is no such session. Items must name different sessions. Ages are by the clock
 * of the database, because instances' clocks differ by more than `raceSeconds`. `locked` is first, so the verdict stays true.
 */
export function createRotation(db: Executor, policy: RotationPolicy, proof?: Proof) {
  const decision = rotationOf(policy, proof)
  return async (items: Rotation[]): Promise<(RotationOutcome | null)[]> => {
    const { rows } = await sql<RotationRow>`
      with item as (select *, clock_timestamp() as db_now from ${rotationTable(items)}), ${decision}`.execute(
      db,
    )
    return inOrder(items.length, rows).map(
      (row) => row && { verdict: row.verdict, session: row, used: row.used, resetSeconds: row.resetSeconds },
    )
  }
}

type RotationRow = Session & Omit<RotationOutcome, 'session'> & { ord: number }

/** Composed once, because it does not depend on the items. */
function rotationOf(policy: RotationPolicy, proof?: Proof) {
  const window = currentWindow(policy.limit, { age: sql`d.window_age`, uses: sql`d.window_rotations` })
  return sql`
    locked as (${lockedSessions(proof && generationOfProof(policy))}), decided as (
      select l.*, ${plain('a', ACCOUNT_COLUMNS)}, a.session_idle_seconds, a.session_max_age_seconds,
        ${endReason('l', 'a')} as ended_because, v.verdict
      from locked l
      join accounts a on a.company_id = l.company_id and a.user_id = l.user_id
      cross join lateral (${verdict(policy)}) v
    ), after as (
      select d.*, d.generation + r.step as new_generation,
        case r.step when 1 then d.now else d.issued_at end as new_issued_at,
        case r.step when 1 then least(d.now + make_interval(secs => ${policy.ttlSeconds}), d.max_expires_at)
          else d.expires_at end as new_expires_at,
        ${proof ? sql`case r.step when 1 then d.now else d.auth_time end` : sql`d.auth_time`} as new_auth_time,
        ${proof ? sql`case r.step when 1 then ${proof.amr}::text[] else d.amr end` : sql`d.amr`} as new_amr,
        ${window.age} as new_window_age, ${window.uses} + (${isCounted('d.verdict')})::int as used
      from decided d cross join lateral (select (d.verdict = 'rotated')::int as step) r
    ), rotated as (${updated(policy, proof)}), counted as (${countedOnly}), ended as (
      update sessions s set ended_at = d.now, end_reason = 'refresh_reuse'
      from decided d
      where s.company_id = d.company_id and s.session_id = d.session_id and d.verdict = 'reused'
    ), audited as (${auditRefused}), told as (${mailReused})
    select d.ord::int, d.verdict, d.used, ${secondsLeft(policy.limit, sql`d.new_window_age`)} as "resetSeconds",
      ${sessionAfter}, d.ended_because as "endReason", ${endsAt('d', 'd', 'new_')} as "endsAt", ${aliased('d', ACCOUNT_COLUMNS)}
    from after d`
}

/** In key order, so that two statements never deadlock. */
const lockedSessions = (tokenGeneration = sql`i.token_generation`) => sql`
  select ${plain('s', SESSION_COLUMNS)}, s.ended_at, s.end_reason, s.user_epoch, s.company_epoch, s.password_epoch, s.recent_keys,
    s.recent_spent_at, s.window_started_at, s.window_rotations,
    ${tokenGeneration} as token_generation, i.key, i.now, i.db_now, i.audit_id, i.ip, i.ord,
    -- At least 0: a rotation that this statement waited for can be later than db_now.
    greatest(extract(epoch from i.db_now - s.rotated_at), 0) as age,
    extract(epoch from i.db_now - s.window_started_at) as window_age
  from item i
  join sessions s on s.company_id = i.company_id and s.session_id = i.session_id
  where s.kind = 'token' and s.user_id = i.user_id
  order by s.company_id, s.session_id
  for update of s`

const newWindowStart = sql`case d.used when 1 then d.db_now else d.window_started_at end`

/** The most tokens that a session can use within the window. Older ones cannot match a retry. */
const rememberedIn = ({ limit, idempotencyWindowSeconds }: RotationPolicy) =>
  Math.min(MAX_REMEMBERED, Math.ceil((limit.max * idempotencyWindowSeconds) / limit.windowSeconds))

function updated(policy: RotationPolicy, proof?: Proof) {
  const isOld = sql`d.db_now - make_interval(secs => ${policy.idempotencyWindowSeconds})`
  const remembered = (column: string, added: string) => {
    const [list, one] = [sql.ref(column), sql.ref(added)]
    return sql`${list}[greatest(width_bucket(${isOld}, d.recent_spent_at) + 1,
      cardinality(${list}) - ${rememberedIn(policy) - 2}):] || ${one}`
  }
  return sql`
    update sessions s set
      generation = d.new_generation,
      issued_at = d.new_issued_at,
      expires_at = d.new_expires_at,
      rotated_at = d.db_now,
      recent_keys = ${remembered('d.recent_keys', 'd.key')},
      recent_spent_at = ${remembered('d.recent_spent_at', 'd.db_now')},
      window_started_at = ${newWindowStart},
      window_rotations = d.used ${proof ? sql`, auth_time = d.new_auth_time, amr = d.new_amr` : sql``}
    from after d
    where s.company_id = d.company_id and s.session_id = d.session_id and d.verdict = 'rotated'`
}

const countedOnly = sql`
  update sessions s set window_started_at = ${newWindowStart}, window_rotations = d.used
  from after d
  where s.company_id = d.company_id and s.session_id = d.session_id and d.verdict in ('repeated', 'raced')`

const auditRefused = auditEach(sql`decided where verdict in ('reused', 'raced')`, {
  companyId: sql`company_id`,
  auditId: sql`audit_id`,
  occurredAt: sql`now`,
  action: sql`'refresh'`,
  outcome: sql`verdict`,
  actor: sql`user_id::text`,
  sessionId: sql`session_id`,
  ipAddress: sql`ip`,
})

const mailReused = mailEach(sql`decided where verdict = 'reused'`, {
  companyId: sql`company_id`,
  mailId: sql`audit_id`,
  kind: sql<'refresh_reuse'>`'refresh_reuse'`,
  recipient: sql`email`,
  data: sql`json_build_object('ipAddress', ip)`,
  createdAt: sql`now`,
})
