import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { MemberIds } from '../company/account.ts'
import { clearGuessedPassword, countWrongCode, forgetWrongCodes } from '../company/identity-repository.ts'
import type { Limit } from '../config/limits.ts'
import type { KeyedDigest } from '../crypto/digests.ts'
import { readAssertion } from '../crypto/passkeys.ts'
import { matchTotp } from '../crypto/totp.ts'
import { type Executor, type Tx, transact } from '../database/connect.ts'
import type { LimitState } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { quotasOf, type Received } from '../limits/client.ts'
import { deleteResetTokens } from '../one-time-token/repository.ts'
import { countTry, deletePasswordProven } from '../second-factor/challenges-repository.ts'
import { consumeRecoveryCode } from '../second-factor/codes-repository.ts'
import { auditRefusal, type GivenProof, methodValuesOf } from '../second-factor/factor.ts'
import { digestsOfCode } from '../second-factor/own-factors.ts'
import * as repository from '../second-factor/repository.ts'
import { sealingContext } from '../second-factor/sealed.ts'
import { actIn } from '../session/acts.ts'
import { endIfGuessed, endUserSessions } from '../session/ending-repository.ts'
import { type SessionIds, sessionEnded } from '../session/session.ts'

/** Second factors. Tries are counted first, so that parallel guesses cannot exceed a limit. */

const MAX_WRONG_CODES = 30

/** Not yet consumed. `amr` has values of RFC 8176. */
export type Verified = { amr: string[] } & (
  | { method: 'totp'; factorId: string; step: number }
  | { method: 'recovery_code'; digests: KeyedDigest[] }
  | { method: 'passkey'; factorId: string; signCount: number; backupEligible: boolean }
)

interface Answer extends Received {
  member: MemberIds & { email: string }
  given: GivenProof
  challenge: string
  hash: Buffer
  /** Only for a re-authentication. */
  sessionId?: string
}

type Failed = { failed: 'challenge' | 'wrong'; limit: LimitState | undefined }

/** `used`: the factor was already used, or was removed. */
export type Effect<Result> = Result | 'challenge_gone' | 'used'

/** `effect` must consume challenge and factor. @throws Problem rate_limited, session_ended */
export async function answerChallenge<Result extends object>(
  context: Context,
  answer: Answer,
  effect: (verified: Verified) => Promise<Effect<Result>>,
): Promise<{ result: Result; limit: LimitState | undefined } | Failed> {
  const { member, given, hash, now } = answer
  const { counters } = context
  const counted = countedOf(context, answer)
  const limit = counted && (await counters.consume(...counted, { now }))
  let isGuess = false
  let failure: unknown
  try {
    if (!(await countTry(context.db, member, hash, new Date(now)))) return { failed: 'challenge', limit }
    const verified = await verify(context, answer)
    const result = verified ? await effect(verified) : 'wrong'
    if (typeof result === 'object') return { result, limit }
    if (result === 'challenge_gone') return { failed: 'challenge', limit }
    // A correct app code that was already used is not a guess. Used recovery codes are deleted, so they look wrong.
    isGuess = given.method === 'recovery_code' || result === 'wrong'
    await recordWrong(context, answer, isGuess ? limit : undefined)
    return { failed: 'wrong', limit }
  } catch (error) {
    failure = error
    throw error
  } finally {
    if (counted && !isGuess) await counters.refund(quotasOf(...counted), failure)
  }
}

/** At sign-in, passkeys are not counted, because they cannot be guessed. */
function countedOf(
  context: Pick<Context, 'config'>,
  { member: { companyId, userId }, given, sessionId }: Answer,
): [Limit, string[]] | undefined {
  if (sessionId !== undefined) return limitOfSession(context, { companyId, sessionId })
  return given.method === 'passkey'
    ? undefined
    : [context.config.limits.secondFactorCodes, [companyId, userId]]
}

async function verify(context: Context, answer: Answer): Promise<Verified | null> {
  const { given, member, challenge, now } = answer
  if (given.method === 'recovery_code') {
    const digests = digestsOfCode(context.digests, member, given.code)
    return digests.length === 0 ? null : { method: 'recovery_code', amr: ['otp'], digests }
  }
  const factors = await repository.listFactors(context.db, member.companyId, member.userId)
  if (given.method === 'passkey') {
    const passkey = factors.find(
      (factor): factor is repository.Passkey =>
        factor.kind === 'passkey' && factor.credentialId.toString('base64url') === given.response.id,
    )
    const { response } = given
    return passkey
      ? await verifyPasskey(context, { response, challenge, passkey, isDiscovered: false })
      : null
  }
  for (const factor of factors) {
    if (factor.kind !== 'totp') continue
    const secret = context.sealer.open(factor.sealedSecret, sealingContext(member.companyId, factor.factorId))
    const step = matchTotp(secret, given.code, now)
    if (step !== null) return { method: 'totp', amr: methodValuesOf(factor), factorId: factor.factorId, step }
  }
  return null
}

export async function verifyPasskey(
  { config }: Pick<Context, 'config'>,
  use: Parameters<typeof readAssertion>[1] & { passkey: Pick<repository.Passkey, 'kind' | 'factorId'> },
): Promise<Verified | null> {
  const assertion = await readAssertion(config.passkeys, use)
  const { factorId } = use.passkey
  return assertion && { method: 'passkey', amr: methodValuesOf(use.passkey), factorId, ...assertion }
}

/** Lock the member first. False if the factor was already used, or was removed. */
export async function consumeProof(
  { system }: Pick<Context, 'system'>,
  tx: Tx,
  { companyId, userId }: MemberIds,
  { verified, client, now }: Received & { verified: Verified },
): Promise<boolean> {
  const at = new Date(now)
  if (verified.method === 'passkey')
    return await repository.consumePasskey(tx, companyId, userId, { ...verified, at })
  if (verified.method === 'totp') {
    const isConsumed = await repository.consumeTotp(tx, companyId, userId, { ...verified, at })
    if (isConsumed) await forgetWrongCodes(tx, companyId, userId)
    return isConsumed
  }
  const codesLeft = await consumeRecoveryCode(tx, companyId, userId, verified.digests)
  if (codesLeft === undefined) return false
  // The email may have changed since the challenge was found.
  const recipient = await forgetWrongCodes(tx, companyId, userId)
  const { audit, mail } = actIn(tx, system, { companyId, userId }, { client, now })
  await mail({ kind: 'recovery_code_used', recipient, data: { ipAddress: client.ipAddress, codesLeft } })
  await audit('recovery_code', { details: { codesLeft } })
  return true
}

async function recordWrong(
  context: Context,
  { member, given: { method }, sessionId, client, now }: Answer,
  limit: LimitState | undefined,
): Promise<void> {
  const received = { client, now }
  const audit = async (db: Executor) =>
    await auditRefusal({ ...context, db }, { ...member, sessionId }, { method }, received)
  if (sessionId !== undefined && limit)
    return await recordSessionGuess(context, { ...member, sessionId }, { ...received, limit }, audit)
  await audit(context.db)
  if (!limit) return
  const wrongCodes = await countWrongCode(context.db, member.companyId, member.userId)
  await voidPassword(context, member, wrongCodes, { client, now })
}

/** Anyone who guesses codes has the password, so after too many wrong codes it stops working, and all sessions end. */
export async function voidPassword(
  { db, system }: Pick<Context, 'db' | 'system'>,
  { companyId, userId, email: recipient }: MemberIds & { email: string },
  wrongCodes: number,
  { client: { ipAddress }, now }: Received,
): Promise<void> {
  if (wrongCodes < MAX_WRONG_CODES) return
  await transact<void>(db, async (tx, rollBack) => {
    // Lock order: emails, tokens, users.
    await deleteResetTokens(tx, companyId, recipient)
    // If a concurrent request has done it, its queued emails must stay.
    if (!(await clearGuessedPassword(tx, companyId, userId, MAX_WRONG_CODES))) throw rollBack()
    await deletePasswordProven(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'password_reset')
    const { mail } = actIn(tx, system, { companyId, userId }, { now })
    await mail({ kind: 'code_guessing', recipient, data: { ipAddress } })
    await mail({ kind: 'password_reset', recipient, data: { isPasswordVoid: true } })
    const about = { action: 'password_void', outcome: 'done', actor: null, subject: userId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
  })
}

/** Wrong re-authentications count only for the session, so that its thief cannot lock the user out of sign-in. */

function limitOfSession(
  { config: { limits } }: Pick<Context, 'config'>,
  { companyId, sessionId }: Omit<SessionIds, 'userId'>,
): [Limit, string[]] {
  return [limits.wrongReauthentications, [companyId, sessionId]]
}

/** Refunds the use unless the result is null. @throws Problem rate_limited */
export async function countSessionGuess<Result>(
  context: Pick<Context, 'counters' | 'config'>,
  session: SessionIds,
  now: number,
  attempt: () => Promise<Result | null>,
): Promise<{ result: Result | null; limit: LimitState }> {
  const { counters } = context
  const [limit, subject] = limitOfSession(context, session)
  const state = await counters.consume(limit, subject, { now })
  const result = await attempt().catch(async (error: unknown) => {
    await counters.refund(quotasOf(limit, subject), error)
    throw error
  })
  if (result !== null) await counters.refundFirst(quotasOf(limit, subject))
  return { result, limit: state }
}

/** @throws Problem session_ended, after the last guess within the limit */
export async function recordSessionGuess(
  context: Pick<Context, 'db' | 'system' | 'config'>,
  session: SessionIds,
  { limit: { remaining }, client: { ipAddress }, now }: Received & { limit: LimitState },
  audit: (tx: Tx) => Promise<void>,
): Promise<void> {
  const { db, system } = context
  const { companyId, userId: actor, sessionId } = session
  const isEnded = await db.transaction().execute(async (tx) => {
    await audit(tx)
    const [quota] = quotasOf(...limitOfSession(context, session))
    if (!quota || remaining > 0) return false
    const recipient = await endIfGuessed(tx, companyId, { sessionId, quota, now: new Date(now) })
    if (recipient === undefined) return false
    const about = { action: 'session_end', outcome: 'reauthentication_failed', actor, sessionId, ipAddress }
    await appendAudit(tx, companyId, newEntry(system, new Date(now), about))
    const { mail } = actIn(tx, system, session, { now })
    await mail({ kind: 'reauthentication_failed', recipient, data: { ipAddress } })
    return true
  })
  if (isEnded) throw sessionEnded('reauthentication_failed')
}
