import type { Transaction } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { isConcerned } from '../company/account.ts'
import type { Context } from '../context.ts'
import type { Database, FactorKind } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { queueMail } from '../mail/service.ts'
import { countChange, requireActor } from '../session/acting.ts'
import { endOtherSessions } from '../session/ending-repository.ts'
import { withdrawSecondFactor } from '../session/proof-repository.ts'
import { type Session, sessionEnded } from '../session/session.ts'
import type { Received } from './context.ts'
import { digestsOfCode, newRecoveryCodes } from './recovery-codes.ts'
import { replaceRecoveryCodes } from './recovery-codes-repository.ts'
import * as repository from './repository.ts'

/**
 * A member changes factors of their own. Each change is decided while the row of the member is held, ends the other
 * sessions, and is audited and mailed in its transaction (ASVS 6.3.7, 7.4.3).
 */

type Tx = Transaction<Database>

/**
 * Removes one of the member's factors; with the last one, the recovery codes are void.
 * @throws Problem not_found, factor_required, session_ended
 */
export async function removeFactor(
  context: Context,
  session: Session,
  id: string,
  received: Received,
): Promise<void> {
  const { companyId, userId } = session
  await countChange(context, session, received.now)
  await context.db.transaction().execute(async (tx) => {
    const owner = await hold(tx, session, received.now)
    const removed = await repository.deleteFactor(tx, companyId, userId, id)
    if (!removed) throw new Problem('not_found', 'You have no second factor with this id.')
    if (!removed.isConfirmed) return
    const kinds = await repository.storeKinds(tx, companyId, userId)
    if (kinds.length === 0) {
      if (isConcerned(owner))
        throw new Problem(
          'factor_required',
          'Your company asks for a second factor, and this is your last one: add another one first.',
        )
      await replaceRecoveryCodes(tx, companyId, userId, [])
    }
    await settle(context, tx, { session, owner }, 'second_factor_remove', { id, ...removed }, received)
    if (kinds.length === 0) await withdrawSecondFactor(tx, companyId, session.sessionId)
  })
}

/** New recovery codes, which void the old ones. @throws Problem factor_required, session_ended */
export async function renewRecoveryCodes(
  context: Context,
  session: Session,
  { client: { ipAddress }, now }: Received,
): Promise<string[]> {
  const { companyId, userId, sessionId } = session
  await countChange(context, session, now)
  return await context.db.transaction().execute(async (tx) => {
    const owner = await hold(tx, session, now)
    if (owner.secondFactors.length === 0)
      throw new Problem('factor_required', 'Recovery codes come with a second factor: add one first.')
    const codes = await storeNewCodes(context, tx, session)
    const mail = { recipient: owner.email, data: { ipAddress }, now }
    await queueMail(tx, context.system, companyId, { kind: 'recovery_codes_replaced', ...mail })
    const about = { action: 'recovery_codes', outcome: 'done', actor: userId, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(context.system, new Date(now), about))
    return codes
  })
}

/** Holds the member, and confirms that the session is live. @throws Problem session_ended */
export async function hold(tx: Tx, session: Session, now: number): Promise<repository.Owner> {
  const owner = await repository.holdOwner(tx, session.companyId, session.userId)
  await requireActor(tx, session, now)
  if (!owner) throw sessionEnded()
  return owner
}

/** A member who is held, by the session that acts. */
export interface Held {
  session: Session
  owner: repository.Owner
}

export interface Changed {
  id: string
  kind: FactorKind
  name: string
  backupEligible?: boolean
}

/** Ends the other sessions, tells the member, and audits. @throws Problem session_ended */
export async function settle(
  { system }: Context,
  tx: Tx,
  { session: { companyId, userId, sessionId }, owner: { email: recipient, secondFactors: before } }: Held,
  action: 'second_factor_add' | 'second_factor_remove',
  { id, kind, name }: Changed,
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  if (!(await endOtherSessions(tx, companyId, userId, sessionId, 'ended_by_user'))) throw sessionEnded()
  const isFirst = before.length === 0
  const added = isFirst ? 'first_factor_added' : 'second_factor_added'
  const mail = action === 'second_factor_add' ? added : 'second_factor_removed'
  const data = { ipAddress, factor: { kind, name }, ...(isFirst && { userId }) }
  await queueMail(tx, system, companyId, { kind: mail, recipient, data, now })
  const about = {
    action,
    outcome: 'done',
    actor: userId,
    subject: id,
    sessionId,
    ipAddress,
    details: { kind },
  }
  await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
}

export async function storeNewCodes(
  { system, digests }: Context,
  tx: Tx,
  { companyId, userId }: Session,
): Promise<string[]> {
  const codes = newRecoveryCodes(system)
  const stored = codes.flatMap((code) => digestsOfCode(digests, { companyId, userId }, code).slice(0, 1))
  await replaceRecoveryCodes(tx, companyId, userId, stored)
  return codes
}
