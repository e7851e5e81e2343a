import type { Executor } from '../database/connect.ts'
import type { AuditEntry } from './entry.ts'

/** Appends to the audit trail. A trigger in the database refuses every change of existing entries. */
export async function appendAudit(db: Executor, companyId: string, entry: AuditEntry): Promise<void> {
  await db
    .insertInto('audit_events')
    .values({
      company_id: companyId,
      audit_id: entry.auditId,
      occurred_at: entry.occurredAt,
      action: entry.action,
      outcome: entry.outcome,
      actor: entry.actor,
      subject: entry.subject ?? null,
      session_id: entry.sessionId ?? null,
      ip_address: entry.ipAddress ?? null,
    })
    .execute()
}
