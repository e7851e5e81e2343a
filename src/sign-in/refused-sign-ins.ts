import type { RefusalReason } from '../audit/entry.ts'
import type { Identity } from '../company/identity-fragments.ts'
import { type RefusedSignIn, recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus } from '../database/schema.ts'
import type { RefusalContext } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import { newId, type System } from '../system.ts'
import type { Recognition } from './known-clients.ts'
import type { Counted } from './sign-in-counters.ts'

/** Sign-ins by password that are refused: why, and their record. */

interface Attempt {
  companyId: string
  email: string
  client: Client
  now: number
}

/** What was found of an attempt. */
interface Found extends Pick<Counted, 'failures' | 'ofAccount'> {
  account: Identity | null
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
  recognized: Pick<Recognition, 'isKnown'>
}

/**
 * Resolves when the refused sign-in is committed, with what the log tells of it. The answer must wait for it. A wrong guess
 * marks a lockout if it was the last one within the limit.
 */
export type RecordRefusal = (
  attempt: Attempt,
  found: Found,
  refused: { reason: RefusalReason; isGuess: boolean },
) => Promise<RefusalContext>

interface Context {
  db: Executor
  system: System
  measureBatch: MeasureBatch
}

/** A flood writes one statement at a time, so that it does not occupy the connections. */
export function createRefusals({ db, system, measureBatch }: Context): RecordRefusal {
  const record = createBatch<RefusedSignIn, 'recorded'>({
    maxInFlight: 1,
    run: measureBatch('refused_sign_ins', async (items) => {
      await recordRefusedSignIns(db, items)
      return items.map(() => 'recorded')
    }),
  })
  return async (attempt, found, { reason, isGuess }) => {
    const { companyId, email, client, now } = attempt
    const { account, recognized, failures, ofAccount } = found
    await record({
      companyId,
      email,
      network: client.network,
      ipAddress: client.ipAddress,
      reason,
      userId: account?.userId ?? null,
      isKnown: recognized.isKnown,
      at: new Date(now),
      isLockout: isGuess && failures.remaining === 0,
      isGuessed: isGuess && ofAccount?.remaining === 0,
      mailId: newId(system),
    })
    return logContextOf(attempt, account, reason)
  }
}

/** What the log tells of a refused sign-in, and the client is not told. */
export function logContextOf(
  { companyId }: Pick<Attempt, 'companyId'>,
  account: Pick<Identity, 'userId'> | null,
  reason: RefusalReason | undefined,
): RefusalContext {
  return { companyId, ...(account && { userId: account.userId }), ...(reason && { reason }) }
}

/** Whether no password counts: the guesses of the account are used up, and the client is not known for its user. */
export function isBarred({ ofAccount, recognized }: Pick<Found, 'ofAccount' | 'recognized'>): boolean {
  return ofAccount === null && !recognized.isKnown
}

/** Why a password opened no session. Where the right one would have opened none, it does not tell whether it was. */
export function reasonOf(found: Found): RefusalReason {
  const { account, companyStatus } = found
  if (companyStatus === null || companyStatus === 'deleting') return 'unknown_company'
  if (companyStatus === 'suspended') return 'company_suspended'
  if (!account) return 'unknown_user'
  if (account.userStatus !== 'active') return 'user_disabled'
  return isBarred(found) ? 'locked_out' : 'wrong_password'
}
