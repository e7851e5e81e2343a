import { createHash } from 'node:crypto'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { isTooLong } from '../crypto/password.ts'
import { invalidField, type LimitState, Problem, type SecondFactorRequest } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { issueProofChallenge } from '../second-factor/challenges.ts'
import { answerProof, findProof } from '../second-factor/challenges-repository.ts'
import type { GivenProof } from '../second-factor/factor.ts'
import { lockOwner } from '../second-factor/repository.ts'
import { matchOwnPassword } from '../session/passwords.ts'
import { type ProofRequest, type Renewed, renewCredentials } from '../session/proof.ts'
import type { Session } from '../session/session.ts'
import {
  answerChallenge,
  consumeProof,
  countSessionGuess,
  type Effect,
  recordSessionGuess,
  type Verified,
} from './proofs.ts'

/** Re-authentication. Wrong values return 400 at their field, because clients would take a 401 as the end of the session. */

/** RFC 8176 */
const BY_PASSWORD = ['pwd']

type Proof = { password: string } | (GivenProof & { challenge: string })

/**
 * A repeat with the same Idempotency-Key shares the result, and is not a new try. @throws Problem invalid_request,
 * session_ended, idempotency_conflict, rate_limited, overloaded
 */
export function createReauthentication(context: Context) {
  const proving = new Map<string, ReturnType<typeof prove>>()
  return async (session: Session, given: Proof, request: ProofRequest) => {
    const digest = digestOf(given, request)
    if (digest.length === 0) return await prove(context, session, given, request)
    const attempt = `${session.sessionId} ${digest.toString('base64')}`
    const answer =
      proving.get(attempt) ?? prove(context, session, given, request).finally(() => proving.delete(attempt))
    proving.set(attempt, answer)
    return await answer
  }
}

async function prove(
  context: Context,
  session: Session,
  given: Proof,
  request: ProofRequest,
): Promise<Renewed | SecondFactorRequest> {
  return 'password' in given
    ? await proveByPassword(context, session, given.password, request)
    : await proveBySecondFactor(context, session, given, request)
}

async function proveByPassword(
  context: Context,
  session: Session,
  password: string,
  request: ProofRequest,
): Promise<Renewed | SecondFactorRequest> {
  await requirePassword(context, session, password, request)
  if (session.secondFactors.length > 0) return await issueProofChallenge(context, session, true, request)
  const renewed = await renewCredentials(context, session, request, {
    amr: BY_PASSWORD,
    // The same session may have added a factor in the meantime.
    consume: async (tx) => {
      const owner = await lockOwner(tx, session.companyId, session.userId)
      return owner?.secondFactors.length === 0
    },
  })
  return renewed ?? (await issueProofChallenge(context, session, true, request))
}

async function requirePassword(context: Context, session: Session, password: string, request: ProofRequest) {
  const { companyId, userId: actor, sessionId } = session
  const { client, now } = request
  const { result, limit } = await countSessionGuess(context, session, now, async () =>
    isTooLong(password) ? null : await matchOwnPassword(context, { session, ...request }, password),
  )
  if (result !== null) return
  const { ipAddress } = client
  const about = { action: 'reauthenticate', outcome: 'refused', actor, sessionId, ipAddress }
  const entry = newEntry(context.system, new Date(now), about)
  await recordSessionGuess(context, session, { ...request, limit }, (tx) => appendAudit(tx, companyId, entry))
  throw wrongAt('password', 'is wrong', 'The password is wrong. Try again.', limit)
}

/** @throws Problem factor_required, session_ended */
export async function beginProofByPasskey(
  context: Context,
  session: Session,
  request: Pick<ProofRequest, 'client' | 'now'>,
): Promise<{ challenge: string; passkeyOptions: object }> {
  const { challenge, passkeyOptions } = await issueProofChallenge(context, session, false, request)
  if (!passkeyOptions)
    throw new Problem('factor_required', 'You have no passkey. Re-authenticate with your password instead.')
  return { challenge, passkeyOptions }
}

async function proveBySecondFactor(
  context: Context,
  session: Session,
  { challenge, ...given }: GivenProof & { challenge: string },
  request: ProofRequest,
): Promise<Renewed> {
  const { client, now } = request
  const { companyId, userId, sessionId } = session
  const hash = context.opaque.hash(challenge)
  const answeredBy = digestOf(given, request)
  const begun = hash && (await findProof(context.db, session, hash, new Date(now)))
  if (!begun) throw deadChallenge()
  const challengeHash = hash
  const methods = begun.isPasswordProven ? BY_PASSWORD : []
  if (isAnswer(begun.answeredBy)) return await repeat()
  if (!begun.isPasswordProven && given.method !== 'passkey')
    throw invalidField('method', 'must be passkey, because the challenge was issued without a password')
  const answered = await answerChallenge(
    context,
    { member: session, given, challenge, hash, sessionId, client, now },
    renew,
  )
  if ('result' in answered) return answered.result
  // A concurrent attempt of the same client may have completed it.
  const after = await findProof(context.db, session, hash, new Date(now))
  if (isAnswer(after?.answeredBy ?? null)) return await repeat()
  const { failed, limit } = answered
  if (failed === 'challenge') throw deadChallenge(limit)
  if (given.method === 'passkey')
    throw wrongAt('response', 'is not accepted', 'The passkey was not accepted. Try again.', limit)
  const detail = 'The code is wrong or was already used. Send the next code.'
  throw wrongAt('code', 'is wrong or was already used', detail, limit)

  async function renew(verified: Verified): Promise<Effect<Renewed>> {
    let failed: 'challenge_gone' | 'used' = 'used'
    const renewed = await renewCredentials(context, session, request, {
      amr: [...methods, ...verified.amr, 'mfa'],
      consume: async (tx) => {
        const answer = { userId, hash: challengeHash, answeredBy, now: new Date(now) }
        const isOwner = await lockOwner(tx, companyId, userId)
        if (isOwner && (await answerProof(tx, companyId, answer)))
          return await consumeProof(context, tx, session, { ...request, verified })
        failed = 'challenge_gone'
        return false
      },
    })
    return renewed ?? failed
  }

  function isAnswer(digest: Buffer | null): boolean {
    return answeredBy.length > 0 && digest !== null && digest.equals(answeredBy)
  }

  /** The first request has already consumed the factor. */
  async function repeat(): Promise<Renewed> {
    const renewed = await renewCredentials(context, session, request, 'given_before')
    if (!renewed) throw deadChallenge()
    return renewed
  }
}

/** Empty if the request cannot be repeated. Without the client's key, the hash does not reveal the code. */
function digestOf(given: Proof | GivenProof, { idempotencyKey, cookie }: ProofRequest): Buffer {
  if (idempotencyKey === undefined || cookie !== undefined) return Buffer.alloc(0)
  return createHash('sha256')
    .update(JSON.stringify([idempotencyKey, given]))
    .digest()
}

function wrongAt(field: string, message: string, detail: string, limit?: LimitState): Problem {
  const errors = [{ path: `/${field}`, message }]
  return new Problem('invalid_request', detail, { errors, ...(limit && { limit }) })
}

function deadChallenge(limit?: LimitState): Problem {
  const detail = 'The challenge is invalid, used, expired, or out of tries. Start again.'
  return wrongAt('challenge', 'is invalid, used, expired, or out of tries', detail, limit)
}
