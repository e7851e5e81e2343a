import { type RawBuilder, sql } from 'kysely'
import { countEach } from '../limits/fragments.ts'
import type { AuditEntry } from './entry.ts'

/** Audit entries in the statement that they record. A trigger stores IP addresses and e-mails apart. */

const insertInto = sql`insert into audit_events
  (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id, ip_address,
   details)`

function auditValues(companyId: string, entry: AuditEntry) {
  const { auditId, occurredAt, action, outcome, actor } = entry
  const { subject = null, sessionId = null, ipAddress = null, details } = entry
  return sql`${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, ${subject}, ${sessionId},
    ${ipAddress}, ${details === undefined ? null : JSON.stringify(details)}`
}

export function auditOne(companyId: string, entry: AuditEntry) {
  return sql`${insertInto} values (${auditValues(companyId, entry)})`
}

/** `source` is a common table expression; without a row there is no entry. */
export function auditIfAny(source: string, companyId: string, entry: AuditEntry) {
  return sql`${insertInto} select ${auditValues(companyId, entry)} from ${sql.table(source)} limit 1`
}

type Expressions = Record<
  Exclude<keyof AuditEntry, 'subject' | 'details'> | 'companyId',
  RawBuilder<unknown>
> & {
  details?: RawBuilder<unknown>
}

/** An entry for each row of `source`, the part of a statement after `from`. */
export function auditEach(source: RawBuilder<unknown>, entry: Expressions) {
  const { companyId, auditId, occurredAt, action, outcome, actor, sessionId, ipAddress } = entry
  const { details = sql`null` } = entry
  return sql`${insertInto}
    select ${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, null, ${sessionId},
      ${ipAddress}, ${details}
    from ${source}`
}

/** By minute and company: of known clients, of strangers, and one row for the rest. */
const MAX_ROWS = { known: 10, strangers: 9 }

/**
 * Sums up refused sign-ins by company, minute, network, reason and member: at most 20 rows per company and
 * minute, so a flood writes little and hides no known clients. A counter gives out the rows to all instances.
 * `source` is a common table expression. Rows are inserted in key order, so statements never deadlock.
 */
export function summingUpRefusedSignIns(source: string) {
  return sql`
    summed as (
      select company_id, minute, network, reason, user_id, kind, bool_or(is_known) as is_known, count(*)::int as count,
        (array_agg(email order by at desc))[1] as last_email,
        (array_agg(ip_address order by at desc))[1] as ip_address, max(at) as last_at
      from (
        select *, date_trunc('minute', at, 'UTC') as minute, concat_ws(' ', reason, user_id) as kind
        from ${sql.table(source)}
      ) s
      group by company_id, minute, network, reason, user_id, kind
    ), fresh as (
      select s.company_id, s.minute, s.network, s.kind,
        case when s.is_known then ${MAX_ROWS.known}::int else ${MAX_ROWS.strangers} end as max_rows,
        concat_ws(' ', 'refused-sign-ins', s.company_id, extract(epoch from s.minute)::bigint, s.is_known) as counter,
        -- By then also those are noted whose second factor did not come.
        s.minute + interval '15 minutes' as ends_at
      from summed s
      where not exists (
        select from refused_sign_ins r
        where r.company_id = s.company_id and r.minute = s.minute and r.network = s.network and r.kind = s.kind
      )
    ), given as (${countEach('fresh')}), beyond as (
      select f.company_id, f.minute, f.network, f.kind
      from (select *, row_number() over (partition by counter order by network, kind) as place from fresh) f
      join given g on g.counter = f.counter
      where g.hits - f.place >= f.max_rows
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
