import type { RefusalReason } from '../audit/entry.ts'
import { type RefusedSignIn, recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { createBatch } from '../database/batch.ts'
import type { RefusalContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import type { Guess } from '../session/guesses.ts'
import { newId } from '../system.ts'
import type { Found } from './account-look-up.ts'

/** Refused sign-ins by password: their reason and their record. */

interface Attempt extends Received {
  email: string
}

/** Resolves after the commit, with what the log says. The last wrong guess within the limit notes a lockout. */
export type RecordRefusal = (
  attempt: Attempt,
  found: Found,
  refused: { reason: RefusalReason; guess?: Guess },
) => Promise<RefusalContext>

/** One statement at a time, so that a flood does not occupy the connections. */
export function createRefusals({ db, system, measureBatch }: Context): RecordRefusal {
  const record = createBatch<RefusedSignIn, 'recorded'>({
    maxInFlight: 1,
    run: measureBatch('refused_sign_ins', async (items) => {
      await recordRefusedSignIns(db, items)
      return items.map(() => 'recorded')
    }),
  })
  return async ({ email, client, now }, found, { reason, guess }) => {
    const { companyId, named, recognized } = found
    await record({
      companyId,
      email,
      network: client.network,
      ipAddress: client.ipAddress,
      reason,
      userId: named?.userId ?? null,
      isKnown: recognized.isKnown,
      at: new Date(now),
      isLockout: guess?.ofPlace.remaining === 0,
      isGuessed: guess?.ofAccount?.remaining === 0,
      mailId: newId(system),
    })
    return logContextOf(found, reason)
  }
}

export function logContextOf({ companyId, named }: Found, reason: RefusalReason): RefusalContext {
  return { companyId, ...(named && { userId: named.userId }), reason }
}

/** Where the right password would have opened no session either, the reason does not say whether it was right. */
export function reasonOf(
  { named, companyStatus }: Found,
  { isBarred }: Pick<Guess, 'isBarred'>,
): RefusalReason {
  if (companyStatus === null || companyStatus === 'deleting') return 'unknown_company'
  if (companyStatus === 'suspended') return 'company_suspended'
  if (!named) return 'unknown_user'
  if (named.userStatus !== 'active') return 'user_disabled'
  return isBarred ? 'locked_out' : 'wrong_password'
}
