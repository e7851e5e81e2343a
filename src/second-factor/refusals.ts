import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Context } from '../context.ts'
import type { FactorRefusal, MemberIds, Received } from './context.ts'
import type { Method } from './factor.ts'

/** Appends the entry of a second factor that was refused. */
export async function recordRefusal(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { companyId, userId: actor }: MemberIds,
  details: { method: Method | 'mailed_code'; reason?: FactorRefusal },
  { client: { ipAddress }, now }: Received,
  sessionId?: string,
): Promise<void> {
  const about = { action: 'second_factor', outcome: 'refused', actor, ipAddress, details }
  await appendAudit(db, companyId, newEntry(system, new Date(now), { ...about, sessionId }))
}
