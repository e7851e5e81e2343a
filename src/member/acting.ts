import type { Transaction } from 'kysely'
import { type Act, type ActContext, type Actor, countChange, type Operator, perform } from '../acts.ts'
import { noSuchUser } from '../company/problems.ts'
import { requireOtherAdmin } from '../company/service.ts'
import type { Context } from '../context.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { lockActorAndMember, type Member } from './repository.ts'

/** Acts of those who manage members, and of operators. */

/** What is locked before users. */
type Prepare = (tx: Transaction<Database>, companyId: string) => Promise<void>

/**
 * Runs the work if the actor may manage members.
 * @throws Problem permission_denied, session_ended, rate_limited
 */
export async function asManager<Result>(
  context: Context,
  actor: Actor,
  work: (act: Act) => Promise<Result>,
  prepare?: Prepare,
): Promise<Result> {
  const { userId } = actor.session
  await countChange(context, actor)
  const lock: Prepare = async (tx, companyId) => {
    await prepare?.(tx, companyId)
    await lockActorAndMember(tx, companyId, userId, userId)
  }
  return await perform(context, actor, { permission: 'members:manage', lock }, work)
}

/** Before `onMember`, for who manages members. @throws Problem permission_denied for the actor's own id; rate_limited */
export async function countChangeOf(context: Context, actor: Actor, memberId: string): Promise<void> {
  if (memberId === actor.session.userId)
    throw new Problem('permission_denied', 'Nobody can do this to their own account; ask another admin.')
  await countChange(context, actor)
}

/**
 * Runs the work on a member, who is locked. With `endsAdmin` the member is no active admin afterwards: then another one must be
 * left, as who manages members is.
 * @throws Problem permission_denied, session_ended, not_found, last_admin
 */
export async function onMember<Result>(
  context: ActContext,
  actor: Actor | Operator,
  memberId: string,
  work: (act: Act, member: Member) => Promise<Result>,
  { endsAdmin = false, prepare }: { endsAdmin?: boolean; prepare?: Prepare } = {},
): Promise<Result> {
  const session = 'session' in actor ? actor.session : null
  const lock = async (tx: Transaction<Database>, companyId: string) => {
    await prepare?.(tx, companyId)
    if (!session && endsAdmin) await requireOtherAdmin(tx, companyId, memberId)
    return await lockActorAndMember(tx, companyId, session?.userId ?? memberId, memberId)
  }
  return await perform(context, actor, { permission: 'members:manage', lock }, async (act, member) => {
    if (!member) throw session ? noSuchMember() : noSuchUser()
    return await work(act, member)
  })
}

export function noSuchMember(): Problem {
  return new Problem('not_found', 'The company has no member with this id.')
}
