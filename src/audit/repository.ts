import type { Executor } from '../database/connect.ts'
import type { AuditEntry } from './entry.ts'
import { auditOne } from './fragments.ts'

/** Appends an entry to the audit trail. A trigger refuses changes to existing entries. */
export async function appendAudit(db: Executor, companyId: string, entry: AuditEntry): Promise<void> {
  await auditOne(companyId, entry).execute(db)
}
