import { type RawBuilder, sql } from 'kysely'
import type { AuditEntry } from './entry.ts'

/**
 * Audit entries as part of the statement that they record, so that both are committed together or not at all.
 * A trigger stores their IP addresses and e-mails in `audit_addresses`.
 */

const insertInto = sql`insert into audit_events
  (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id, ip_address,
   details)`

/** The values of an entry, in the order of the columns. */
function auditValues(companyId: string, entry: AuditEntry) {
  const { auditId, occurredAt, action, outcome, actor } = entry
  const { subject = null, sessionId = null, ipAddress = null, details } = entry
  return sql`${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, ${subject}, ${sessionId},
    ${ipAddress}, ${details === undefined ? null : JSON.stringify(details)}`
}

/** Adds one entry. */
export function auditOne(companyId: string, entry: AuditEntry) {
  return sql`${insertInto} values (${auditValues(companyId, entry)})`
}

/** Adds the entry if the common table expression `source` has a row. */
export function auditIfAny(source: string, companyId: string, entry: AuditEntry) {
  return sql`${insertInto} select ${auditValues(companyId, entry)} from ${sql.table(source)} limit 1`
}

/** For each field an expression over a row of the source. */
type Expressions = Record<Exclude<keyof AuditEntry, 'subject' | 'details'> | 'companyId', RawBuilder<unknown>>

/** Adds an entry for each row of `source`, the part of a statement that follows `from`. */
export function auditEach(source: RawBuilder<unknown>, entry: Expressions) {
  const { companyId, auditId, occurredAt, action, outcome, actor, sessionId, ipAddress } = entry
  return sql`${insertInto}
    select ${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, null, ${sessionId},
      ${ipAddress}, null
    from ${source}`
}

/**
 * Sums up refused sign-ins: one row per company, minute, network and kind, whatever their number. `source` is
 * the part of a statement that follows `from`, with the columns company_id, network, kind, email and at.
 * Inserts in key order, so that two statements never deadlock.
 */
export function sumUpRefusedSignIns(source: RawBuilder<unknown>) {
  return sql`
    insert into refused_sign_ins as r (company_id, minute, network, kind, count, last_email, last_at)
    select company_id, date_trunc('minute', at, 'UTC'), network, kind, count(*),
      (array_agg(email order by at desc))[1], max(at)
    from ${source}
    group by 1, 2, 3, 4
    order by 1, 2, 3, 4
    on conflict (company_id, minute, network, kind) do update set count = r.count + excluded.count,
      last_email = excluded.last_email, last_at = greatest(r.last_at, excluded.last_at)`
}
