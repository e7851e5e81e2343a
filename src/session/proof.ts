import { type Tx, transact } from '../database/connect.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { actIn } from './acts.ts'
import { proveByCookie } from './repository.ts'
import { policyOf, type Refreshed, toAnswer, toRotation } from './rotation.ts'
import { createRotation, type RotationOutcome } from './rotation-repository.ts'
import { type Session, sessionEnded } from './session.ts'

/** Re-authentication replaces the credentials of a session, so that copies of the old ones gain nothing (ASVS 7.2.4). */

export interface ProofRequest extends Received {
  /** Undefined with an access token. */
  cookie: string | undefined
  idempotencyKey: string | undefined
}

export type Renewed = { cookie: string } | Refreshed

/** Locks the user and consumes challenge and factor. False if they are no longer valid. */
export type Consume = (tx: Tx) => Promise<boolean>

interface Proof {
  amr: string[]
  consume?: Consume | undefined
}

/** A repeated request can only get the same response again. */
type Cause = Proof | 'given_before'

/** Null, with nothing changed, if `cause` is invalid. @throws the problems of a refresh */
export async function renewCredentials(
  context: Context,
  session: Session,
  request: ProofRequest,
  cause: Cause,
): Promise<Renewed | null> {
  if (request.cookie === undefined) return await nextPair(context, session, request, cause)
  return cause === 'given_before' ? null : await nextCookie(context, session, request, cause)
}

function detailsOf({ amr }: Proof) {
  return { details: amr.length > 1 ? { methods: amr } : undefined }
}

async function nextPair(context: Context, session: Session, request: ProofRequest, cause: Cause) {
  const { companyId, sessionId, userId } = session
  const { idempotencyKey, client, now } = request
  const proof = cause === 'given_before' ? { amr: [] } : cause
  const token = { companyId, sessionId, userId, generation: null }
  const rotation = toRotation(context, token, { idempotencyKey, ipAddress: client.ipAddress, now })
  type Outcome = RotationOutcome | null | 'not_consumed'
  const outcome = await transact<Outcome>(context.db, async (tx, rollBack) => {
    if (proof.consume && !(await proof.consume(tx))) throw rollBack('not_consumed')
    const [found = null] = await createRotation(tx, policyOf(context.config), proof)([rotation])
    if (found?.verdict === 'repeated') return found
    if (found?.verdict === 'rotated' && cause === 'given_before') throw rollBack('not_consumed')
    if (found?.verdict !== 'rotated') throw rollBack(found)
    await actIn(tx, context.system, session, request).audit('reauthenticate', detailsOf(proof))
    return found
  })
  return outcome === 'not_consumed' ? null : await toAnswer(context, outcome, now)
}

async function nextCookie(context: Context, session: Session, request: ProofRequest, proof: Proof) {
  const { db, opaque } = context
  const cookie = opaque.generate()
  const former = request.cookie === undefined ? null : opaque.hash(request.cookie)
  const change = { before: former, after: opaque.hash(cookie), at: new Date(request.now), amr: proof.amr }
  return await transact<{ cookie: string } | null>(db, async (tx, rollBack) => {
    if (proof.consume && !(await proof.consume(tx))) throw rollBack(null)
    if (!(await proveByCookie(tx, session.companyId, session.sessionId, change))) throw sessionEnded()
    await actIn(tx, context.system, session, request).audit('reauthenticate', detailsOf(proof))
    return { cookie }
  })
}
