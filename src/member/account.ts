import { checkName } from '../company/checks.ts'
import { rename } from '../company/service.ts'
import type { Context } from '../context.ts'
import { countChange, requireActor } from '../session/acting.ts'
import { type Actor, auditOf } from './acting.ts'
import { lockActorAndMember } from './repository.ts'

/**
 * Changes one's own name, unless it is that already. Returns it in its stored form.
 * @throws Problem invalid_request, session_ended, rate_limited
 */
export async function changeOwnName(context: Context, actor: Actor, given: string): Promise<string> {
  const { companyId, userId } = actor.session
  const name = checkName('name', given)
  await countChange(context, actor.session, actor.now)
  await context.db.transaction().execute(async (tx) => {
    const member = await lockActorAndMember(tx, companyId, userId, userId)
    await requireActor(tx, actor.session, actor.now)
    if (member?.name === name) return
    await rename(tx, companyId, userId, name)
    await auditOf(context, tx, actor)({ action: 'name_change' })
  })
  return name
}
