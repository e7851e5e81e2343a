import { type ACTIONS, type AuditEntry, newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { listAdminEmails } from '../company/repository.ts'
import type { Tx } from '../database/connect.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { type Client, clientOf, type Received } from '../limits/client.ts'
import { type NewMail, queueMail } from '../mail/service.ts'
import type { System } from '../system.ts'
import { lockSession } from './repository.ts'
import { type Session, type SessionIds, sessionEnded } from './session.ts'

/** A change takes its locks first, then checks the permission, because a change that it waited for may have revoked it. */

export type ActContext = Pick<Context, 'db' | 'system'> & {
  operatorName?: string | undefined
}

export interface Actor extends Received {
  session: Session
}

const OPERATOR = 'operator'

export interface Operator {
  companyId: string
  now: number
}

export function actorOf(
  request: Parameters<typeof clientOf>[0] & { session: Session },
  { system }: Pick<Context, 'system'>,
): Actor {
  return { session: request.session, client: clientOf(request), now: system.now() }
}

/** Bounds the rows that a user's changes leave behind. @throws Problem rate_limited */
export async function countChange(
  { counters, config }: Pick<Context, 'counters' | 'config'>,
  actor: Actor,
): Promise<void> {
  const { companyId, userId } = actor.session
  // Without `client`: the response may already report a tighter limit.
  await counters.consume(config.limits.memberChanges, [companyId, userId], { now: actor.now })
}

interface Terms<Locked> {
  /** Null if every user may do it. */
  permission: string | null
  /** Takes all locks that can block. */
  lock(tx: Tx, companyId: string): Promise<Locked>
}

/** @throws Problem session_ended, permission_denied, for users */
export async function perform<Locked, Result>(
  { db, system, operatorName }: ActContext,
  actor: Actor | Operator,
  { permission, lock }: Terms<Locked>,
  work: (act: Act, locked: Locked) => Promise<Result>,
): Promise<Result> {
  const by =
    'session' in actor ? actor.session : { companyId: actor.companyId, userId: OPERATOR, operatorName }
  return await db.transaction().execute(async (tx) => {
    const locked = await lock(tx, by.companyId)
    if ('session' in actor) await requireActor(tx, actor.session, actor.now, permission)
    return await work(actIn(tx, system, by, actor), locked)
  })
}

/** For work that locks as it goes. */
export async function asOperator<Result>(
  context: ActContext,
  operator: Operator,
  work: (act: Act) => Promise<Result>,
): Promise<Result> {
  return await perform(context, operator, { permission: null, lock: async () => {} }, work)
}

export type Act = ReturnType<typeof actIn>

/** Also for changes that an emailed link permits. `userId` is a user's, or `operator`. */
export function actIn(
  tx: Tx,
  system: System,
  {
    companyId,
    userId,
    sessionId,
    operatorName,
  }: {
    companyId: string
    userId: string
    sessionId?: string
    operatorName?: string | undefined
  },
  { client, now }: { client?: Client; now: number },
) {
  const by = { outcome: 'done', actor: userId, sessionId, ipAddress: client?.ipAddress }
  const ofOperator = operatorName === undefined ? {} : { operator: operatorName }
  const through = { ...ofOperator, ...(client?.via && { via: client.via.userId }) }
  return {
    tx,
    companyId,
    /** Null for an operator. */
    memberId: userId === OPERATOR ? null : userId,
    audit: async (
      action: keyof typeof ACTIONS,
      { subject, details }: Pick<AuditEntry, 'subject' | 'details'> = {},
    ): Promise<void> => {
      const all = { ...details, ...through }
      const about = { action, ...by, subject, ...(Object.keys(all).length > 0 && { details: all }) }
      await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
    },
    mail: async (mail: Omit<NewMail, 'now'>): Promise<string> =>
      await queueMail(tx, system, companyId, { ...mail, now }),
    mailAdmins: async ({ data, ...mail }: Pick<NewMail, 'kind' | 'data'>): Promise<void> => {
      const about = { ...mail, data: { ipAddress: client?.ipAddress, ...data }, now }
      for (const recipient of await listAdminEmails(tx, companyId))
        await queueMail(tx, system, companyId, { ...about, recipient })
    },
  }
}

/** Call it after all locks, because the guards checked before the wait. @throws Problem session_ended, permission_denied */
export async function requireActor(
  tx: Tx,
  { companyId, userId, sessionId }: SessionIds,
  now: number,
  permission: string | null,
): Promise<void> {
  const permissions = await lockSession(tx, companyId, { userId, sessionId }, new Date(now))
  if (!permissions) throw sessionEnded()
  if (permission !== null && !permissions.includes(permission))
    throw new Problem(
      'permission_denied',
      `You no longer have the permission ${permission}. Ask an admin of your company for access.`,
    )
}
