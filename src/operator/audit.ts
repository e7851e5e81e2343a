import { listEntries, listRefusedSignIns } from '../audit/repository.ts'
import { normalizeEmail } from '../company/checks.ts'
import { findUser } from '../company/listing-repository.ts'
import type { Executor } from '../database/connect.ts'

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
