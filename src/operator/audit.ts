import { type AuditEntry, newEntry } from '../audit/entry.ts'
import { appendAudit, listEntries, listRefusedSignIns } from '../audit/repository.ts'
import { normalizeEmail } from '../company/checks.ts'
import { findUser } from '../company/listing-repository.ts'
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

/**
 * The newest entries of a company's audit trail and its refused sign-ins, at most `max` of each. With an e-mail, those about
 * the user who has it, and those that name it, also if nobody has it.
 */
export async function readAudit(
  db: Executor,
  companyId: string,
  { email: given, max }: { email?: string | undefined; max: number },
) {
  const email = given === undefined ? undefined : normalizeEmail(given)
  const user = email === undefined ? undefined : await findUser(db, companyId, { email })
  const person = email === undefined ? undefined : { email, userId: user?.userId ?? null }
  const entries = await listEntries(db, companyId, { person, max })
  const refusedSignIns = await listRefusedSignIns(db, companyId, { person, max })
  return { companyId, ...person, entries, refusedSignIns }
}
