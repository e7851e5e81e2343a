import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { checkName } from '../company/checks.ts'
import { rename } from '../company/service.ts'
import type { Actor, Context } from './acting.ts'

/** One's own name. Returns it in its stored form. @throws Problem invalid_request */
export async function changeOwnName({ db, system }: Context, actor: Actor, given: string): Promise<string> {
  const { session, ipAddress, now } = actor
  const { companyId, userId, sessionId } = session
  const name = checkName('name', given)
  await db.transaction().execute(async (tx) => {
    await rename(tx, companyId, userId, name)
    const about = { action: 'name_change', outcome: 'done', actor: userId, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
  })
  return name
}
