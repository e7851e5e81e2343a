import { createHash } from 'node:crypto'
import { hashOpaque } from '../crypto/opaque.ts'
import { invalidField, Problem, type SecondFactorRequest } from '../errors.ts'
import type { LimitedHasher } from '../limits/hashing.ts'
import { matchOwnPassword } from '../session/own-password.ts'
import { type ProofRequest, type Renewed, renewCredentials } from '../session/proof.ts'
import type { RotationContext } from '../session/rotation.ts'
import type { Session } from '../session/session.ts'
import { askForProof } from './challenges.ts'
import { answerProof, findProof } from './challenges-repository.ts'
import type { Context } from './context.ts'
import type { GivenProof } from './factor.ts'
import { answerChallenge, consumeProof, type Verified } from './proofs.ts'
import { holdOwner } from './repository.ts'

/**
 * Recent proof: a user with a session proves again who they are, by what a sign-in would ask of them. What is wrong is
 * refused at its field: 401 would mean to clients that the session has ended.
 */

export interface ReauthenticationContext extends Context, RotationContext {
  hasher: LimitedHasher
}

/** RFC 8176 */
const BY_PASSWORD = ['pwd']

/**
 * Proves by password. A user who has a second factor is asked for that.
 * @throws Problem invalid_request, session_ended, idempotency_conflict, rate_limited, overloaded
 */
export async function proveByPassword(
  context: ReauthenticationContext,
  session: Session,
  password: string,
  request: ProofRequest,
): Promise<Renewed | SecondFactorRequest> {
  const act = { action: 'reauthenticate', ...request }
  if ((await matchOwnPassword(context, session, password, act)) === null)
    throw invalidField('password', 'is wrong')
  if (session.secondFactors.length > 0) return await askForProof(context, session, true, request)
  // A factor that is added meanwhile ends this session, so it cannot be renewed without it.
  const renewed = await renewCredentials(context, session, request, { amr: BY_PASSWORD })
  if (!renewed) throw new Error('a proof without anything to consume was not given')
  return renewed
}

/** Begins a proof by passkey, without the password. @throws Problem factor_required, session_ended */
export async function beginProofByPasskey(
  context: Context,
  session: Session,
  request: Pick<ProofRequest, 'client' | 'now'>,
): Promise<{ challenge: string; passkeyOptions: object }> {
  const { challenge, passkeyOptions } = await askForProof(context, session, false, request)
  if (!passkeyOptions) throw new Problem('factor_required', 'You have no passkey; prove it by your password.')
  return { challenge, passkeyOptions }
}

/**
 * Completes a proof by the second factor. The same request again, with the same Idempotency-Key, has the same answer.
 * @throws Problem invalid_request, session_ended, idempotency_conflict, rate_limited
 */
export async function proveBySecondFactor(
  context: ReauthenticationContext,
  session: Session,
  { challenge, ...given }: GivenProof & { challenge: string },
  request: ProofRequest,
): Promise<Renewed> {
  const { client, now } = request
  const { companyId, userId, sessionId } = session
  const hash = hashOpaque(challenge)
  const answeredBy = digestOf(given, request)
  const begun = hash && (await findProof(context.db, session, hash, new Date(now)))
  if (!begun) throw deadChallenge()
  const methods = begun.isPasswordProven ? BY_PASSWORD : []
  if (isAnswer(begun.answeredBy)) return await repeat()
  if (!begun.isPasswordProven && given.method !== 'passkey')
    throw invalidField('method', 'must be passkey, since the password was not given')
  const answered = await answerChallenge(
    context,
    { member: session, given, challenge, hash, sessionId, client, now },
    async (verified) => await renew(verified),
  )
  if (answered) return answered.result
  // Another attempt of the same client can have completed it meanwhile.
  const after = await findProof(context.db, session, hash, new Date(now))
  if (isAnswer(after?.answeredBy ?? null)) return await repeat()
  throw after?.answeredBy
    ? deadChallenge()
    : given.method === 'passkey'
      ? invalidField('response', 'is not accepted')
      : invalidField('code', 'is wrong, or its challenge has had too many tries')

  async function renew(verified: Verified): Promise<Renewed | null> {
    return await renewCredentials(context, session, request, {
      amr: [...methods, ...verified.amr, 'mfa'],
      consume: async (tx) => {
        if (!(await holdOwner(tx, companyId, userId)) || !hash) return false
        if (!(await answerProof(tx, companyId, { userId, hash, answeredBy, now: new Date(now) })))
          return false
        return await consumeProof(context, tx, session, verified, request)
      },
    })
  }

  function isAnswer(digest: Buffer | null): boolean {
    return answeredBy.length > 0 && digest !== null && digest.equals(answeredBy)
  }

  /** The session has moved on by this proof already, so there is nothing left to consume. */
  async function repeat(): Promise<Renewed> {
    const renewed = await renewCredentials(context, session, request, 'given_before')
    if (!renewed) throw deadChallenge()
    return renewed
  }
}

/**
 * What a request must repeat to be the same one; empty if it can not be repeated. Nobody can work a code out of it without
 * the client's key.
 */
function digestOf(given: GivenProof, { idempotencyKey, cookie }: ProofRequest): Buffer {
  if (idempotencyKey === undefined || cookie !== undefined) return Buffer.alloc(0)
  return createHash('sha256')
    .update(JSON.stringify([idempotencyKey, given]))
    .digest()
}

function deadChallenge() {
  return invalidField(
    'challenge',
    'is unknown, used or expired',
    'Begin again: the challenge is used or expired.',
  )
}
