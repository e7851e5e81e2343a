import { type AuditEntry, newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Executor } from '../database/connect.ts'
import type { System } from '../system.ts'

/** Appends the audit entry of an operator's act. Call it in the transaction of the act, with its time. */
export async function auditOperator(
  db: Executor,
  system: System,
  companyId: string,
  at: Date,
  act: Pick<AuditEntry, 'action' | 'subject' | 'details'>,
): Promise<void> {
  await appendAudit(db, companyId, newEntry(system, at, { ...act, outcome: 'done', actor: 'operator' }))
}
