import { type Act, type Actor, countChange, perform } from '../acts.ts'
import { checkName } from '../company/checks.ts'
import { rename } from '../company/service.ts'
import type { Context } from '../context.ts'
import { lockActorAndMember } from './repository.ts'

/**
 * Changes one's own name, unless it is that already. Returns it in its stored form.
 * @throws Problem invalid_request, session_ended, rate_limited
 */
export async function changeOwnName(context: Context, actor: Actor, given: string): Promise<string> {
  const { companyId, userId } = actor.session
  const name = checkName('name', given)
  await countChange(context, actor)
  const lock = async (tx: Act['tx']) => await lockActorAndMember(tx, companyId, userId, userId)
  await perform(context, actor, { permission: null, lock }, async ({ tx, audit }, member) => {
    if (member?.name === name) return
    await rename(tx, companyId, userId, name)
    await audit('name_change')
  })
  return name
}
