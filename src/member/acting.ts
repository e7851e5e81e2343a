import type { Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Context } from '../context.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { ipAddressOf, networkOf } from '../limits/client.ts'
import { countChange, requireActor } from '../session/acting.ts'
import type { Session } from '../session/session.ts'
import { lockActorAndMember, type Member } from './repository.ts'

/** What every act of an admin has: it is allowed at the moment of its transaction, and audited in it. */

/** Who acts, from where, and when in milliseconds. */
export interface Actor {
  session: Session
  ipAddress: string
  network: string
  now: number
}

/** Who acts by a request. */
export function actorOf(
  request: Parameters<typeof networkOf>[0] & { session: Session },
  { system }: Pick<Context, 'system'>,
): Actor {
  const [ipAddress, network] = [ipAddressOf(request), networkOf(request)]
  return { session: request.session, ipAddress, network, now: system.now() }
}

/** What an entry of the trail says of an act. */
export interface Act {
  action: string
  subject?: string
  details?: Record<string, unknown>
}

type Audit = (act: Act) => Promise<void>

/** What is locked before the actor. */
type Prepare = (tx: Transaction<Database>) => Promise<void>

/**
 * Runs the work if the actor may manage members.
 * @throws Problem permission_denied, session_ended
 */
export async function asManager<Result>(
  context: Context,
  actor: Actor,
  work: (tx: Transaction<Database>, audit: Audit) => Promise<Result>,
  prepare?: Prepare,
): Promise<Result> {
  return await act(context, actor, actor.session.userId, (tx, _self, audit) => work(tx, audit), prepare)
}

/**
 * Runs the work on a member, who is locked.
 * @throws Problem permission_denied, also for the actor's own id; session_ended, not_found
 */
export async function onMember<Result>(
  context: Context,
  actor: Actor,
  memberId: string,
  work: (tx: Transaction<Database>, member: Member, audit: Audit) => Promise<Result>,
  prepare?: Prepare,
): Promise<Result> {
  if (memberId === actor.session.userId)
    throw new Problem('permission_denied', 'Nobody can do this to their own account; ask another admin.')
  return await act(context, actor, memberId, work, prepare)
}

async function act<Result>(
  context: Context,
  actor: Actor,
  memberId: string,
  work: (tx: Transaction<Database>, member: Member, audit: Audit) => Promise<Result>,
  prepare: Prepare = async () => {},
): Promise<Result> {
  const { companyId, userId } = actor.session
  await countChange(context, actor.session, actor.now)
  return await context.db.transaction().execute(async (tx) => {
    await prepare(tx)
    const member = await lockActorAndMember(tx, companyId, userId, memberId)
    await requireActor(tx, actor.session, actor.now, 'members:manage')
    if (!member) throw noSuchMember()
    return await work(tx, member, auditOf(context, tx, actor))
  })
}

export function auditOf(
  { system }: Pick<Context, 'system'>,
  tx: Transaction<Database>,
  { session: { companyId, userId, sessionId }, ipAddress, now }: Actor,
): Audit {
  const about = { outcome: 'done', actor: userId, sessionId, ipAddress }
  return async (act) =>
    await appendAudit(tx, companyId, newEntry(system, new Date(now), { ...about, ...act }))
}

export function noSuchMember(): Problem {
  return new Problem('not_found', 'The company has no member with this id.')
}
