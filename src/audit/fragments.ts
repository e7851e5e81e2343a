import { type RawBuilder, sql } from 'kysely'
import type { AuditEntry } from './entry.ts'

/** Audit entries as a part of the statement that they record, so that both are committed or neither is. */

/** For each field a value, or an expression over a row of `source`. */
type Expressions = { [Field in keyof Required<AuditEntry> | 'companyId']: RawBuilder<unknown> | string }

/** Adds an entry for each row of `source`, which is the SQL that follows `from`. */
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
