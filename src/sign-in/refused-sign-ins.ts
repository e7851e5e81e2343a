import type { RefusalReason } from '../audit/entry.ts'
import { type RefusedSignIn, recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { Problem, type RefusalContext } from '../errors.ts'
import type { Batched, Context } from '../http/context.ts'
import type { Guess } from '../session/guesses.ts'
import { newId } from '../system.ts'
import type { Found } from './account-look-up.ts'
import type { Attempt } from './attempt.ts'

/** Refused sign-ins by password: their reason, their record, and their answer. */

/** One statement at a time, so that a flood does not occupy the connections. */
const refusals: Batched<RefusedSignIn, 'recorded'> = {
  name: 'refused_sign_ins',
  maxInFlight: 1,
  async run({ db }, items) {
    await recordRefusedSignIns(db, items)
    return items.map(() => 'recorded')
  },
}

/** Resolves after the commit, with what the log says. The last wrong guess within the limit notes a lockout. */
export async function recordRefusal(
  { inBatch, system }: Pick<Context, 'inBatch' | 'system'>,
  { email, client, now }: Attempt,
  found: Found,
  reason: RefusalReason,
  guess?: Guess,
): Promise<RefusalContext> {
  const { companyId, named, recognized } = found
  await inBatch(refusals, {
    companyId,
    email,
    network: client.network,
    ipAddress: client.ipAddress,
    reason,
    userId: named?.userId ?? null,
    isKnown: recognized.isKnown,
    at: new Date(now),
    isLockout: guess?.ofNetwork.remaining === 0,
    isGuessed: guess?.ofAccount?.remaining === 0,
    mailId: newId(system),
  })
  return logContextOf(found, reason)
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

/** Why the right password opens no session. */
const NOT_NOW = {
  email_not_verified: ['email_not_verified', 'Open the link in the verification mail first, then sign in.'],
  token_mode_only: ['permission_denied', 'A service member signs in without X-Session-Mode: it gets tokens.'],
} as const
export type NotNow = keyof typeof NOT_NOW

/** One answer for every other reason. */
export function refusal(reason: RefusalReason, logContext: RefusalContext): Problem {
  if (reason !== 'email_not_verified' && reason !== 'token_mode_only')
    return new Problem('invalid_credentials', 'Company, e-mail address or password is wrong.', { logContext })
  const [code, detail] = NOT_NOW[reason]
  return new Problem(code, detail, { logContext })
}
