import { type RawBuilder, sql } from 'kysely'
import type { AuditEntry } from './entry.ts'

/** Audit entries as part of the statement that they record, so that both are committed together or not at all. */

const insertInto = sql`insert into audit_events
  (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id, ip_address)`

/** The values of an entry, in the order of the columns. */
function auditValues(companyId: string, entry: AuditEntry) {
  const { auditId, occurredAt, action, outcome, actor } = entry
  const { subject = null, sessionId = null, ipAddress = null } = entry
  return sql`${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, ${subject}, ${sessionId},
    ${ipAddress}`
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
type Expressions = Record<Exclude<keyof AuditEntry, 'subject'> | 'companyId', RawBuilder<unknown>>

/** Adds an entry for each row of `source`, the part of a statement that follows `from`. */
export function auditEach(source: RawBuilder<unknown>, entry: Expressions) {
  const { companyId, auditId, occurredAt, action, outcome, actor, sessionId, ipAddress } = entry
  return sql`${insertInto}
    select ${companyId}, ${auditId}, ${occurredAt}, ${action}, ${outcome}, ${actor}, null, ${sessionId},
      ${ipAddress}
    from ${source}`
}
