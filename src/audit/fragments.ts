import { type RawBuilder, sql } from 'kysely'
import type { AuditEntry } from './entry.ts'

/** The audit trail as a part of the statement that it records: entry and act are committed together or not at all. */

/** A value, or an expression over a row of the source. */
type Expressions = { [Field in keyof Required<AuditEntry> | 'companyId']: RawBuilder<unknown> | string }

/** Adds an entry for each row of `source`, the part of a statement that follows `from`. */
export function auditEach(source: RawBuilder<unknown>, entry: Omit<Expressions, 'subject'>) {
  return sql`
    insert into audit_events
      (company_id, audit_id, occurred_at, action, outcome, actor, session_id, ip_address)
    select ${entry.companyId}, ${entry.auditId}, ${entry.occurredAt}, ${entry.action}, ${entry.outcome},
      ${entry.actor}, ${entry.sessionId}, ${entry.ipAddress}
    from ${source}`
}

/** Adds the entry if the common table expression `source` has a row. */
export function auditIfAny(source: string, companyId: string, entry: AuditEntry) {
  return sql`
    insert into audit_events
      (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id, ip_address)
    select ${companyId}, ${entry.auditId}, ${entry.occurredAt}, ${entry.action}, ${entry.outcome},
      ${entry.actor}, ${entry.subject ?? null}, ${entry.sessionId ?? null}, ${entry.ipAddress ?? null}
    from ${sql.table(source)} limit 1`
}
