import { sql } from 'kysely'
import { auditEach, summingUpServiceSignIns } from '../audit/fragments.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { type CountedQuota, refundEach } from '../limits/counters-repository.ts'
import type { Session } from '../session/session.ts'
import {
  endsAt,
  isNotEnded,
  isPasswordOver,
  type KnownClient,
  learning,
} from '../session/session-fragments.ts'

/** The statement that inserts it works out when it ends. */
export interface NewSession extends Omit<Session, 'endsAt'> {
  cookieHash: Buffer | null
  userAgent: string | null
  ipAddress: string
  network: string
  /** The hash that the password matched; null for other credentials. */
  passwordHash: string | null
  /** For a service password; otherwise 0. */
  passwordEpoch: number
  learns: KnownClient[]
  knownUntil: Date
  refunds: CountedQuota[]
  auditId: string
  details: string | null
  supersededAuditId: string
}

const sessionTable = itemTable<NewSession>({
  company_id: ['uuid', ({ companyId }) => companyId],
  user_id: ['uuid', ({ userId }) => userId],
  session_id: ['uuid', ({ sessionId }) => sessionId],
  email: ['text', ({ email }) => email],
  kind: ['text', ({ kind }) => kind],
  created_at: ['timestamptz', ({ createdAt }) => createdAt],
  expires_at: ['timestamptz', ({ expiresAt }) => expiresAt],
  max_expires_at: ['timestamptz', ({ maxExpiresAt }) => maxExpiresAt],
  amr: ['text', ({ amr }) => amr?.join(' ') ?? null],
  cookie_hash: ['bytea', ({ cookieHash }) => cookieHash],
  user_agent: ['text', ({ userAgent }) => userAgent],
  ip_address: ['text', ({ ipAddress }) => ipAddress],
  network: ['text', ({ network }) => network],
  password_hash: ['text', ({ passwordHash }) => passwordHash],
  password_epoch: ['int', ({ passwordEpoch }) => passwordEpoch],
  known_until: ['timestamptz', ({ knownUntil }) => knownUntil],
  audit_id: ['uuid', ({ auditId }) => auditId],
  details: ['json', ({ details }) => details],
  superseded_audit_id: ['uuid', ({ supersededAuditId }) => supersededAuditId],
})

/** The most sessions that one statement ends for a user. It ends more than it opens only after the limit was lowered. */
const MAX_SUPERSEDED = 1_000
/** All servers of a service account share its limit. */
const SERVICE_FACTOR = 10

/**
 * Returns when each session ends, in order; null if the user or company is inactive, or the password has changed. Both
 * stay locked. So an end of all sessions either precedes the new session, which has the new epoch, or follows and ends it too.
 */
export async function insertSessions(
  db: Executor,
  sessions: NewSession[],
  maxSessions: number,
): Promise<(Date | null)[]> {
  const refunds = sessions.map((session) => session.refunds)
  const { rows } = await sql<{ ord: number; endsAt: Date }>`
    with item as (select * from ${sessionTable(sessions)}), ${lockedMembers}, accepted as (${accepted(maxSessions)}),
    numbered as (
      -- Beyond the maximum even without older sessions: of one statement, the latest ones stay.
      select *, row_number() over (partition by company_id, user_id order by ord) as position,
        row_number() over (partition by company_id, user_id order by ord desc) > max_sessions - unseen as is_beyond
      from accepted
    ), member as (
      select ${ofMember}, count(*)::int as opening, max(created_at) as now
      from numbered where not is_beyond
      group by ${ofMember}
    ), counted as (
      update users u set sessions_opened = u.sessions_opened + m.opening,
        last_sign_in_at = greatest(u.last_sign_in_at, date_trunc('hour', m.now, 'UTC'))
      from member m where u.company_id = m.company_id and u.user_id = m.user_id
    ), live as (${live}), superseded as (${supersede}), ended as (
      select company_id, user_id, session_id, row_number() over (partition by company_id, user_id order by position) as position
      from (
        select company_id, user_id, session_id, position from superseded
        union all select company_id, user_id, session_id, null from numbered where is_beyond
      ) e
    ), opened as (
      insert into sessions (company_id, session_id, user_id, kind, cookie_hash, created_at, issued_at, expires_at,
        max_expires_at, user_agent, ip_address, network, user_epoch, company_epoch, password_epoch, auth_time, amr,
        ended_at, end_reason)
      select company_id, session_id, user_id, kind, cookie_hash, created_at, created_at, expires_at,
        max_expires_at, user_agent, ip_address, network, user_epoch, company_epoch, password_epoch, created_at,
        string_to_array(amr, ' '), case when is_beyond then created_at end, case when is_beyond then 'superseded' end
      from numbered
    ), audited as (${audit}), told as (${auditSuperseded}),
    refunded as (${refundEach('numbered', refunds)}) ${learningOf(sessions)} ${summingOf(sessions)}
    select ord::int, ${endsAt('n', 'n')} as "endsAt" from numbered n`.execute(db)
  return inOrder(sessions.length, rows).map((row) => row?.endsAt ?? null)
}

const ofMember = sql`company_id, user_id, user_kind, user_epoch, company_epoch, password_floor, session_idle_seconds,
  session_max_age_seconds, max_sessions, unseen`

/** In key order, so that two statements never deadlock. */
const lockedMembers = sql`company as (
    select company_id, session_epoch, session_idle_seconds, session_max_age_seconds from companies
    where company_id in (select company_id from item) and status = 'active'
    order by company_id
    for share
  ), locked as (
    select u.company_id, u.user_id, u.kind as user_kind, u.email, u.password_hash, u.second_factors, u.password_epoch,
      u.former_password_until, u.sessions_opened, u.session_epoch as user_epoch, c.session_epoch as company_epoch,
      c.session_idle_seconds, c.session_max_age_seconds
    from (select distinct company_id, user_id from item) i
    join company c on c.company_id = i.company_id
    join users u on u.company_id = i.company_id and u.user_id = i.user_id
    where u.status = 'active'
    order by u.company_id, u.user_id
    for no key update of u
  )`

const isPasswordReplaced = isPasswordOver(sql`i.password_epoch`, 'l')

/** A password is enough if it and the email are unchanged, and the user has no second factor. */
const accepted = (maxSessions: number) => sql`
  select i.*, i.created_at as issued_at, l.user_kind, l.user_epoch, l.company_epoch, l.session_idle_seconds,
    l.session_max_age_seconds,
    case when l.former_password_until > clock_timestamp() then l.password_epoch - 1 else l.password_epoch end
      as password_floor,
    ${maxSessions}::int * case l.user_kind when 'service' then ${SERVICE_FACTOR}::int else 1 end as max_sessions,
    -- Opened while this statement waited for the user. Its snapshot does not show them, nor which sessions they have ended.
    l.sessions_opened - (
      select seen.sessions_opened from users seen where seen.company_id = l.company_id and seen.user_id = l.user_id
    ) as unseen
  from item i
  join locked l on l.company_id = i.company_id and l.user_id = i.user_id
  where not ${isPasswordReplaced} and (i.password_hash is null
    or (l.password_hash = i.password_hash and l.email = i.email and l.second_factors = '{}'))`

const live = sql`
  select s.company_id, s.user_id, s.session_id, s.issued_at, m.now,
    m.unseen + m.opening - m.max_sessions as excess
  from member m
  -- The offset keeps the planner from all sessions there are, to these members.
  cross join lateral (
    select * from sessions s
    where s.company_id = m.company_id and s.user_id = m.user_id and s.user_epoch = m.user_epoch and s.ended_at is null
      and ${endsAt('s', 'm')} > m.now and s.company_epoch = m.company_epoch and s.password_epoch >= m.password_floor
    offset 0
  ) s`

/** In key order, so that two statements never deadlock. */
const supersede = sql`
  update sessions s set ended_at = l.now, end_reason = 'superseded'
  from (
    select s.company_id, s.session_id, l.now, l.position
    from (
      select * from (
        select company_id, session_id, now, excess + count(*) over (partition by company_id, user_id) as count,
          row_number() over (partition by company_id, user_id order by issued_at) as position
        from live
      ) l
      where position <= least(${MAX_SUPERSEDED}, count)
      order by company_id, session_id
    ) l
    cross join lateral (
      select company_id, session_id from sessions s
      where s.company_id = l.company_id and s.session_id = l.session_id
      for update
    ) s
  ) l
  where s.company_id = l.company_id and s.session_id = l.session_id and ${isNotEnded('s')}
  returning s.company_id, s.session_id, s.user_id, l.position`

const audit = auditEach(sql`numbered where user_kind = 'person'`, {
  companyId: sql`company_id`,
  auditId: sql`audit_id`,
  occurredAt: sql`created_at`,
  action: sql`'sign_in'`,
  outcome: sql`'done'`,
  actor: sql`user_id::text`,
  sessionId: sql`session_id`,
  ipAddress: sql`ip_address`,
  details: sql`details`,
})

/** At most one entry per opened session. */
const auditSuperseded = auditEach(
  sql`ended s join numbered a on a.company_id = s.company_id and a.user_id = s.user_id and a.position = s.position
    where a.user_kind = 'person'`,
  {
    companyId: sql`s.company_id`,
    auditId: sql`a.superseded_audit_id`,
    occurredAt: sql`a.created_at`,
    action: sql`'session_end'`,
    outcome: sql`'superseded'`,
    actor: sql`s.user_id::text`,
    sessionId: sql`s.session_id`,
    ipAddress: sql`a.ip_address`,
  },
)

function learningOf(sessions: NewSession[]) {
  const learns = sessions.flatMap(({ learns }, index) => learns.map((one) => ({ ...one, ord: index + 1 })))
  if (learns.length === 0) return sql``
  return sql`, learnt as (
      select a.company_id, a.user_id, l.kind, l.digest, max(a.known_until) as known_until
      from unnest(${learns.map(({ ord }) => ord)}::int[], ${learns.map(({ kind }) => kind)}::text[],
        ${learns.map(({ digest }) => digest)}::bytea[]) as l (ord, kind, digest)
      join numbered a on a.ord = l.ord
      group by a.company_id, a.user_id, l.kind, l.digest
    ), ${learning}`
}

/** Aggregates the sign-ins of service accounts, which run on many servers, and stores the hour of the last use. */
function summingOf(sessions: NewSession[]) {
  if (sessions.every(({ userKind }) => userKind === 'person')) return sql``
  return sql`, of_fleets as (
      select a.*, s.session_id is not null as superseded
      from numbered a
      left join ended s on s.company_id = a.company_id and s.user_id = a.user_id and s.position = a.position
      where a.user_kind = 'service'
    ), ${summingUpServiceSignIns('of_fleets')}, used as (
      update service_passwords p set last_used_at = a.hour
      from (
        select company_id, user_id, password_epoch, date_trunc('hour', max(created_at), 'UTC') as hour
        from numbered group by company_id, user_id, password_epoch
      ) a
      where p.company_id = a.company_id and p.user_id = a.user_id and p.password_epoch = a.password_epoch
        and coalesce(p.last_used_at < a.hour, true)
    )`
}
