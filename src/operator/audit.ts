import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Executor } from '../database/connect.ts'
import type { System } from '../system.ts'

/** What an operator did: each act is audited in the transaction that does it, at the time that it was done. */
export async function auditOperator(
  db: Executor,
  system: System,
  companyId: string,
  at: Date,
  act: { action: string; subject?: string | undefined },
): Promise<void> {
  await appendAudit(db, companyId, newEntry(system, at, { ...act, outcome: 'done', actor: 'operator' }))
}
