import { type RawBuilder, sql } from 'kysely'
import { countEach } from '../limits/counters-repository.ts'
import type { AuditEntry } from './entry.ts'

/** Entries are written in the statement that they record. A trigger stores IP addresses and emails apart. */

const insertInto = sql`insert into audit_events
  (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id, ip_address, details, feed_position)`
/** The column's default would work out the same for each row. */
const position = sql`(select next_feed_position())`

function auditValues(companyId: string, entry: AuditEntry) {
  const { auditId, occurredAt, action, outcome, actor } = entry
  const { subject = null, sessionId = null, ipAddress = null, details } = entry
  return sql`${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, ${subject}, ${sessionId},
    ${ipAddress}, ${details === undefined ? null : JSON.stringify(details)}, ${position}`
}

export function auditOne(companyId: string, entry: AuditEntry) {
  return sql`${insertInto} values (${auditValues(companyId, entry)})`
}

/** `source` is a common table expression. If it has no row, there is no entry. */
export function auditIfAny(source: string, companyId: string, entry: AuditEntry) {
  return sql`${insertInto} select ${auditValues(companyId, entry)} from ${sql.table(source)} limit 1`
}

type Column = Exclude<keyof AuditEntry, 'subject' | 'details'> | 'companyId'
type Expressions = Record<Column, RawBuilder<unknown>> & { details?: RawBuilder<unknown> }

/** One entry per row of `source`, the part of a statement after `from`. */
export function auditEach(source: RawBuilder<unknown>, entry: Expressions) {
  const { companyId, auditId, occurredAt, action, outcome, actor, sessionId, ipAddress } = entry
  const { details = sql`null` } = entry
  return sql`${insertInto}
    select ${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, null, ${sessionId},
      ${ipAddress}, ${details}, ${position}
    from ${source}`
}

/**
 * The minute to which a sign-in is added. A sum can grow for 110 seconds from the beginning of its minute, even if the clock of an
 * instance is behind or a batch waited. Then the audit feed returns it.
 */
const minuteOf = (at: string, keptOpen = '50 seconds') =>
  sql`minute_of_sum(${sql.ref(at)}, ${keptOpen}::interval)`

/** 15 minutes longer, because a factor that never came is noted that late (sign-in/lapsed.ts). */
const minuteOfFactorMissing = (at: string) => minuteOf(at, '950 seconds')

/** Per minute and company, plus one row for the rest. */
const MAX_ROWS = { known: 10, strangers: 9 }

/**
 * At most 20 rows per company and minute, which a counter shares among all instances: a flood writes little and
 * hides no known clients. `source` is a common table expression. Inserts in key order never deadlock.
 */
export function summingUpRefusedSignIns(source: string) {
  return sql`
    summed as (
      select company_id, minute, network, reason, user_id, kind, bool_or(is_known) as is_known, count(*)::int as count,
        (array_agg(email order by at desc))[1] as last_email,
        (array_agg(ip_address order by at desc))[1] as ip_address, max(at) as last_at
      from (
        select *, concat_ws(' ', reason, user_id) as kind,
          case when reason = 'factor_missing' then ${minuteOfFactorMissing('at')} else ${minuteOf('at')} end as minute
        from ${sql.table(source)}
      ) s
      group by company_id, minute, network, reason, user_id, kind
    ), fresh as (
      select s.company_id, s.minute, s.network, s.kind,
        case when s.is_known then ${MAX_ROWS.known}::int else ${MAX_ROWS.strangers} end as max_rows,
        concat_ws(' ', 'refused-sign-ins', s.company_id, extract(epoch from s.minute)::bigint, s.is_known) as counter,
        -- By then, sign-ins whose second factor never came are noted too.
        s.minute + interval '15 minutes' as ends_at
      from summed s
      where not exists (
        select from refused_sign_ins r
        where r.company_id = s.company_id and r.minute = s.minute and r.network = s.network and r.kind = s.kind
      )
    ), given as (${countEach('fresh')}), beyond as (
      select f.company_id, f.minute, f.network, f.kind
      from (select *, row_number() over (partition by counter order by network, kind) as position from fresh) f
      join given g on g.counter = f.counter
      where g.hits - f.position >= f.max_rows
    ), refused as (
      insert into refused_sign_ins as r
        (company_id, minute, network, kind, count, last_email, last_at, reason, user_id, ip_address)
      select company_id, minute, network, kind, sum(count), (array_agg(last_email order by last_at desc))[1],
        max(last_at), reason, user_id, (array_agg(ip_address order by last_at desc))[1]
      from (
        select s.company_id, s.minute, s.last_email, s.last_at, s.ip_address, s.count,
          case when b.kind is null then s.network else '' end as network,
          case when b.kind is null then s.kind else 'other' end as kind,
          case when b.kind is null then s.reason else 'other' end as reason,
          case when b.kind is null then s.user_id end as user_id
        from summed s left join beyond b
          on b.company_id = s.company_id and b.minute = s.minute and b.network = s.network and b.kind = s.kind
      ) s
      group by company_id, minute, network, kind, reason, user_id
      order by company_id, minute, network, kind
      on conflict (company_id, minute, network, kind) do update set count = r.count + excluded.count,
        last_email = excluded.last_email, last_at = greatest(r.last_at, excluded.last_at),
        ip_address = excluded.ip_address
    )`
}

/** Per minute and account, plus one row for the rest. */
const MAX_NETWORKS = 19

/**
 * `opened` has a row per sign-in: whether it `superseded` a session, and how many sign-ins of the account the snapshot
 * does not show (`unseen`): each may have added a network. Its accounts are locked, so no statement waits for the sums.
 */
export function summingUpServiceSignIns(opened: string) {
  return sql`
    fleet as (
      select company_id, minute, user_id, network, count(*)::int as count, count(*) filter (where superseded)::int as superseded,
        max(unseen) as unseen, min(audit_id::text) as audit_id, (array_agg(ip_address order by created_at desc))[1] as ip_address
      from (select *, ${minuteOf('created_at')} as minute from ${sql.table(opened)}) o
      group by company_id, minute, user_id, network
    ), roomy as (
      select f.*, r.network is not null or (
        select count(*) from service_sign_ins k
        where k.company_id = f.company_id and k.minute = f.minute and k.user_id = f.user_id
      ) + f.unseen + row_number() over (
        partition by f.company_id, f.minute, f.user_id, r.network is null order by f.network
      ) <= ${MAX_NETWORKS} as has_room
      from fleet f
      left join service_sign_ins r
        on r.company_id = f.company_id and r.minute = f.minute and r.user_id = f.user_id and r.network = f.network
    ), summed as (
      insert into service_sign_ins as r (company_id, minute, user_id, network, audit_id, count, superseded, ip_address)
      select company_id, minute, user_id, case when has_room then network else '' end, min(audit_id)::uuid, sum(count),
        sum(superseded), min(ip_address)
      from roomy group by 1, 2, 3, 4
      on conflict (company_id, minute, user_id, network) do update set count = r.count + excluded.count,
        superseded = r.superseded + excluded.superseded, ip_address = excluded.ip_address
    )`
}
