import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { countWrongCode, forgetWrongCodes } from '../company/wrong-codes-repository.ts'
import type { Context } from '../context.ts'
import type { KeyedDigest } from '../crypto/digests.ts'
import { readAssertion } from '../crypto/passkeys.ts'
import { matchTotp } from '../crypto/totp.ts'
import type { Transaction } from '../database/connect.ts'
import type { LimitState } from '../limits/list.ts'
import { quotasOf } from '../limits/subject.ts'
import { queueMail } from '../mail/service.ts'
import { countTry } from '../second-factor/challenges-repository.ts'
import type { MemberIds, Received } from '../second-factor/context.ts'
import { type GivenProof, methodValuesOf, type Passkey } from '../second-factor/factor.ts'
import { digestsOfCode } from '../second-factor/recovery-codes.ts'
import { consumeRecoveryCode } from '../second-factor/recovery-codes-repository.ts'
import { recordRefusal } from '../second-factor/refusals.ts'
import * as repository from '../second-factor/repository.ts'
import { sealingContext } from '../second-factor/sealed.ts'
import { voidPassword } from './guessing.ts'

/**
 * A second factor that a member gives in answer to a challenge: it is verified first, and consumed by the transaction of its
 * effect. Tries are counted before, by challenge and codes also by member, so that parallel guesses cannot exceed a limit.
 */

/** What was verified, and is still to be consumed. `amr` in the words of RFC 8176. */
export type Verified = { amr: string[] } & (
  | { method: 'totp'; factorId: string; step: number }
  | { method: 'recovery_code'; digests: KeyedDigest[] }
  | { method: 'passkey'; factorId: string; signCount: number; backupEligible: boolean }
)

interface Attempt extends Received {
  member: MemberIds & { email: string }
  given: GivenProof
  /** The challenge that it answers, and the hash by which that is stored. */
  challenge: string
  hash: Buffer
  /** The session that proves again who its user is. */
  sessionId?: string
}

/** Why nothing came of a second factor: its challenge is not good, or it is itself wrong, which is recorded. */
export type Refused = { refused: 'challenge' | 'wrong'; limit: LimitState | undefined }

/** What a transaction makes of a second factor that was verified. `used` is one that was used before, or was removed. */
export type Effect<Result> = Result | 'challenge_gone' | 'used'

/**
 * Counts a try, verifies what was given, and runs `effect`, which consumes challenge and factor.
 * @throws Problem rate_limited
 */
export async function answerChallenge<Result extends object>(
  context: Context,
  attempt: Attempt,
  effect: (verified: Verified) => Promise<Effect<Result>>,
): Promise<{ result: Result; limit: LimitState | undefined } | Refused> {
  const { member, given, hash, now } = attempt
  const { counters, config } = context
  const [codes, subject] = [config.limits.secondFactorCodes, [member.companyId, member.userId]]
  const limit = given.method === 'passkey' ? undefined : await counters.consume(codes, subject, now)
  let isGuess = false
  try {
    if (!(await countTry(context.db, member, hash, new Date(now)))) return { refused: 'challenge', limit }
    const verified = await verify(context, attempt)
    const result = verified ? await effect(verified) : 'wrong'
    if (typeof result === 'object') return { result, limit }
    // Another request has answered it meanwhile, which can be the same one again.
    if (result === 'challenge_gone') return { refused: 'challenge', limit }
    // A code of an app that was used is not guessed. A recovery code that was used is not known any more.
    isGuess = given.method === 'recovery_code' || (given.method === 'totp' && result === 'wrong')
    await recordWrong(context, attempt, isGuess)
    return { refused: 'wrong', limit }
  } finally {
    // The answer stands, whether or not the use of the limit can be given back.
    if (limit && !isGuess) await counters.refund(quotasOf(codes, subject)).catch(() => {})
  }
}

async function verify(context: Context, attempt: Attempt): Promise<Verified | null> {
  const { given, member, challenge, now } = attempt
  if (given.method === 'recovery_code') {
    const digests = digestsOfCode(context.digests, member, given.code)
    return digests.length === 0 ? null : { method: 'recovery_code', amr: ['otp'], digests }
  }
  const factors = await repository.listFactors(context.db, member.companyId, member.userId)
  if (given.method === 'passkey') {
    const passkey = factors.find(
      (factor): factor is Passkey =>
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
    const step = matchTotp(secret, given.code.replaceAll(' ', ''), now)
    if (step !== null) return { method: 'totp', amr: methodValuesOf(factor), factorId: factor.factorId, step }
  }
  return null
}

/** Verifies the use of a passkey; null unless all of it is in order. */
export async function verifyPasskey(
  { config }: Pick<Context, 'config'>,
  use: Parameters<typeof readAssertion>[1] & { passkey: Pick<Passkey, 'kind' | 'factorId'> },
): Promise<Verified | null> {
  const assertion = await readAssertion(config.passkeys, use)
  const { factorId } = use.passkey
  return assertion && { method: 'passkey', amr: methodValuesOf(use.passkey), factorId, ...assertion }
}

/** Consumes what was verified; false if it was used before, or its factor was removed. The member is held. */
export async function consumeProof(
  { system }: Pick<Context, 'system'>,
  tx: Transaction,
  { companyId, userId }: MemberIds,
  verified: Verified,
  { client: { ipAddress }, now }: Received,
): Promise<boolean> {
  const at = new Date(now)
  if (verified.method === 'passkey')
    return await repository.consumePasskey(tx, companyId, userId, { ...verified, at })
  if (verified.method === 'totp') {
    if (!(await repository.consumeTotp(tx, companyId, userId, { ...verified, at }))) return false
  } else {
    const codesLeft = await consumeRecoveryCode(tx, companyId, userId, verified.digests)
    if (codesLeft === undefined) return false
    const data = { ipAddress, codesLeft }
    // That of this moment: it can have been changed since the challenge was found.
    const recipient = await forgetWrongCodes(tx, companyId, userId)
    await queueMail(tx, system, companyId, { kind: 'recovery_code_used', recipient, data, now })
    const about = {
      action: 'recovery_code',
      outcome: 'done',
      actor: userId,
      ipAddress,
      details: { codesLeft },
    }
    await appendAudit(tx, companyId, newEntry(system, at, about))
    return true
  }
  await forgetWrongCodes(tx, companyId, userId)
  return true
}

/** Records what was wrong. Too many wrong codes in a row make the password void: somebody else knows it. */
async function recordWrong(
  context: Context,
  { member, given: { method }, sessionId, client, now }: Attempt,
  isGuess: boolean,
): Promise<void> {
  await recordRefusal(context, member, { method }, { client, now }, sessionId)
  if (!isGuess) return
  const wrongCodes = await countWrongCode(context.db, member.companyId, member.userId)
  await voidPassword(context, member, wrongCodes, { client, now })
}
