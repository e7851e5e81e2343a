import { sql } from 'kysely'
import { newId, type System } from '../system.ts'
import type { Executor } from './connect.ts'

export interface AuditEntry {
  auditId: string
  occurredAt: Date
  action: string
  outcome: string
  /** The user's id, the e-mail address that was tried, or `operator`. */
  actor: string
  /** Whom it was done to, where that is not the actor: a user's id. */
  subject?: string | undefined
  sessionId?: string | undefined
  ipAddress?: string | undefined
}

/** An entry about what happened at that time. */
export function newEntry(
  system: System,
  occurredAt: Date,
  facts: Omit<AuditEntry, 'auditId' | 'occurredAt'>,
): AuditEntry {
  return { ...facts, auditId: newId(system), occurredAt }
}

/** The company id of what concerns no single company. */
export const PLATFORM = '00000000-0000-0000-0000-000000000000'

/** Adds to the audit trail, which the database lets nobody change. */
export async function appendAudit(db: Executor, companyId: string, entry: AuditEntry): Promise<void> {
  await db.insertInto('audit_events').values(toRow(companyId, entry)).execute()
}

/** The same as a part of the statement that it records: adds the entry if the CTE `source` has a row. */
export function auditIfAny(source: string, companyId: string, entry: AuditEntry) {
  const row = Object.entries(toRow(companyId, entry))
  const values = row.map(([, value]) => sql`${value}`)
  return sql`
    insert into audit_events (${sql.join(row.map(([column]) => sql.ref(column)))})
    select ${sql.join(values)} from ${sql.table(source)} limit 1`
}

function toRow(companyId: string, entry: AuditEntry) {
  return {
    company_id: companyId,
    audit_id: entry.auditId,
    occurred_at: entry.occurredAt,
    action: entry.action,
    outcome: entry.outcome,
    actor: entry.actor,
    subject: entry.subject ?? null,
    session_id: entry.sessionId ?? null,
    ip_address: entry.ipAddress ?? null,
  }
}
