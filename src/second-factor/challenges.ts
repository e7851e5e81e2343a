import type { Identity } from '../company/identity-fragments.ts'
import type { Context } from '../context.ts'
import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import { requestOptions } from '../crypto/passkeys.ts'
import type { ChallengePurpose, SessionKind } from '../database/schema.ts'
import type { SecondFactorRequest } from '../errors.ts'
import { type Session, sessionEnded } from '../session/session.ts'
import { insertOfSession, insertSignIn, type NewChallenge } from './challenges-repository.ts'
import type { MemberIds, Received } from './context.ts'
import type { Factor, Method, Passkey } from './factor.ts'
import { countRecoveryCodes } from './recovery-codes-repository.ts'
import { listFactors } from './repository.ts'

/** Challenges are opaque: 256 random bits, of which a hash is stored. A browser signs the same bytes with a passkey. */

export const CHALLENGE_MS = 300_000

/** Asks for the second factor of a sign-in whose password was right; null if password or factors have changed meanwhile. */
export async function askForSignIn(
  context: Context,
  account: Identity,
  { mode, ...received }: Received & { mode: SessionKind },
): Promise<SecondFactorRequest | null> {
  const { companyId, userId } = account
  const about = { userId, purpose: 'sign_in', mode, sessionId: null, isPasswordProven: true } as const
  const { challenge, row } = newChallenge(context, about, received)
  if (!(await insertSignIn(context.db, account, row))) return null
  return await describe(context, { companyId, userId }, challenge)
}

/** Asks for the second factor of a proof: whichever the member has or, without the password, a passkey. */
export async function askForProof(
  context: Context,
  session: Session,
  isPasswordProven: boolean,
  received: Received,
): Promise<SecondFactorRequest> {
  const challenge = await challengeOfSession(
    context,
    session,
    { purpose: 'proof', isPasswordProven },
    received,
  )
  const asked = await describe(context, session, challenge)
  return isPasswordProven ? asked : { ...asked, methods: ['passkey'] }
}

/** A challenge that the session can complete. @throws Problem session_ended */
export async function challengeOfSession(
  context: Context,
  { companyId, userId, sessionId }: Session,
  about: { purpose: ChallengePurpose; isPasswordProven: boolean },
  received: Received,
): Promise<string> {
  const { challenge, row } = newChallenge(context, { userId, sessionId, mode: null, ...about }, received)
  if (!(await insertOfSession(context.db, companyId, row))) throw sessionEnded()
  return challenge
}

function newChallenge(
  { system }: Context,
  about: Pick<NewChallenge, 'userId' | 'purpose' | 'mode' | 'sessionId' | 'isPasswordProven'>,
  { client: { network, ipAddress }, now }: Received,
): { challenge: string; row: NewChallenge } {
  const challenge = generateOpaque(system.randomBytes)
  const hash = hashOpaque(challenge)
  if (!hash) throw new Error('a new challenge has no hash')
  const times = { createdAt: new Date(now), expiresAt: new Date(now + CHALLENGE_MS) }
  return { challenge, row: { ...about, ...times, hash, network, ipAddress } }
}

/** What the member can answer by. */
async function describe(
  { db, config, digests }: Context,
  { companyId, userId }: MemberIds,
  challenge: string,
): Promise<SecondFactorRequest> {
  const factors = await listFactors(db, companyId, userId)
  const passkeys = factors.filter((factor): factor is Passkey => factor.kind === 'passkey')
  const methods: Method[] = kindsOf(factors)
  if ((await countRecoveryCodes(db, companyId, userId, digests.keyIds)) > 0) methods.push('recovery_code')
  return {
    challenge,
    methods,
    ...(passkeys.length > 0 && { passkeyOptions: requestOptions(config.passkeys, challenge, passkeys) }),
  }
}

function kindsOf(factors: Factor[]) {
  return [...new Set(factors.map(({ kind }) => kind))].sort()
}
