import { PLATFORM } from '../audit/entry.ts'
import type { MemberIds } from '../company/account.ts'
import { recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { NOBODYS_KEY } from '../crypto/passkey-keys.ts'
import { type AssertionResponse, requestOptions } from '../crypto/passkeys.ts'
import type { SessionKind } from '../database/schema.ts'
import { Problem, withLogContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { issueUnstored, readUnstored } from '../second-factor/challenges.ts'
import * as challenges from '../second-factor/challenges-repository.ts'
import {
  auditRefusal,
  type FactorRefusal,
  type GivenProof,
  invalidSecondFactor,
} from '../second-factor/factor.ts'
import { type FoundPasskey, findPasskeyAcrossCompanies } from '../second-factor/repository.ts'
import { recognizeMember } from '../session/known-clients.ts'
import { newId } from '../system.ts'
import { openSession, type SignedIn } from './opening.ts'
import { answerChallenge, consumeProof, verifyPasskey } from './proofs.ts'
import { countAttempt } from './sign-in.ts'

/** Sign-in with a second factor, and with a passkey instead of a password. */

export interface SignInRequest extends Received {
  formerCookie: string | undefined
  deviceCookie: string | undefined
  /** If sent, it must be the mode of the challenge. */
  mode: SessionKind | undefined
  /** @throws Problem cross_site_request */
  requireSameSite(): void
}

/** @throws Problem invalid_request, invalid_second_factor, cross_site_request, rate_limited */
export async function completeSignIn(
  context: Context,
  { challenge, ...given }: GivenProof & { challenge: string },
  request: SignInRequest,
): Promise<SignedIn> {
  const { client, now } = request
  const hash = context.opaque.hash(challenge)
  const found = hash && (await challenges.findSignInAcrossCompanies(context.db, hash, new Date(now)))
  const isForeign = client.via && client.via.companyId !== found?.identity.companyId
  if (!found || isForeign) throw invalidSecondFactor({ reason: 'challenge_void' })
  const { identity, mode } = found
  const { companyId, userId } = identity
  requireMode(request, mode)
  const recognized = await recognizeMember(context, identity, { ...request, mode })
  const answering = answerChallenge(
    context,
    { member: identity, given, challenge, hash, client, now },
    async (verified) => {
      let failed: 'challenge_gone' | 'used' = 'used'
      const amr = ['pwd', ...verified.amr, 'mfa']
      const opening = { ...request, mode, recognized, amr, refunds: [] }
      const opened = await openSession(context, identity, opening, async (tx) => {
        const consumed = { userId, hash, network: client.network, now: new Date(now) }
        if (await challenges.consumeSignIn(tx, companyId, consumed))
          return await consumeProof(context, tx, identity, { ...request, verified })
        failed = 'challenge_gone'
        return false
      })
      return opened ?? failed
    },
  )
  const answered = await answering.catch((error: unknown) => {
    const isLockedOut = error instanceof Problem && error.code === 'rate_limited'
    throw isLockedOut ? withLogContext(error, { companyId, userId, reason: 'locked_out' }) : error
  })
  if ('failed' in answered) {
    const reason = answered.failed === 'challenge' ? 'challenge_void' : 'wrong_factor'
    throw invalidSecondFactor({ companyId, userId, reason }, answered.limit)
  }
  if (answered.limit) client.noteLimit(answered.limit)
  return answered.result
}

/** Stores nothing, because anyone can start a sign-in. */
export function beginByPasskey(
  context: Pick<Context, 'config' | 'system' | 'digests' | 'opaque'>,
  mode: SessionKind,
  now: number,
): { challenge: string; passkeyOptions: object } {
  const challenge = issueUnstored(context, mode, now)
  return { challenge, passkeyOptions: requestOptions(context.config.passkeys, challenge) }
}

/** Unknown passkeys cost the same work, so that the response time reveals nothing. */
const NOBODYS = {
  companyId: PLATFORM,
  userId: PLATFORM,
  factorId: PLATFORM,
  kind: 'passkey',
  publicKey: NOBODYS_KEY,
  handle: Buffer.alloc(0),
  backupEligible: false,
} as const

/** @throws Problem invalid_second_factor, cross_site_request, rate_limited */
export async function signInByPasskey(
  context: Context,
  { challenge, response }: { challenge: string; response: AssertionResponse },
  request: SignInRequest,
): Promise<SignedIn> {
  const { db } = context
  const begun = readUnstored(context, challenge, request.now)
  if (begun) requireMode(request, begun.mode)
  const credentialId = Buffer.from(response.id, 'base64url')
  const found = begun && (await findPasskeyAcrossCompanies(db, credentialId))
  const passkey = found ?? { ...NOBODYS, credentialId }
  const mode = begun?.mode ?? 'token'
  const recognized = begun && (await recognizeMember(context, passkey, { ...request, mode }))
  const attempting = { client: request.client, device: recognized?.device, now: request.now }
  return await countAttempt(context, attempting, async () => {
    if (!recognized) throw invalidSecondFactor({ reason: 'challenge_void' })
    const verified = await verifyPasskey(context, { response, challenge, passkey, isDiscovered: true })
    const identity =
      found && verified && (await challenges.findOwnerOfPasskeyAcrossCompanies(db, credentialId))
    if (identity) {
      const opening = { ...request, mode, recognized, amr: [...verified.amr, 'mfa'], refunds: [] }
      const opened = await openSession(context, identity, opening, async (tx) => {
        if (!(await challenges.consumeUnstored(tx, begun.hash, begun.expiresAt))) return false
        // The member may have started with the password, then chosen the passkey.
        await challenges.deleteWaiting(tx, identity.companyId, identity.userId, request.client.network)
        return await consumeProof(context, tx, identity, { ...request, verified })
      })
      if (opened) return opened
    }
    throw invalidSecondFactor(await record(context, found, request))
  })
}

async function record(
  context: Context,
  found: FoundPasskey | null | undefined,
  request: SignInRequest,
): Promise<{ reason: FactorRefusal } & Partial<MemberIds>> {
  const { db, system } = context
  if (found) {
    const { companyId, userId } = found
    const reason = reasonOf(found)
    await auditRefusal(context, found, { method: 'passkey', reason }, request)
    return { companyId, userId, reason }
  }
  const { network, ipAddress } = request.client
  const nobody = { companyId: PLATFORM, userId: null, email: '', isKnown: false, reason: 'other' } as const
  const counted = { isLockout: false, isGuessed: false, mailId: newId(system), at: new Date(request.now) }
  await recordRefusedSignIns(db, [{ ...nobody, ...counted, network, ipAddress }])
  return { reason: 'unknown_passkey' }
}

function reasonOf({ companyStatus, userStatus }: FoundPasskey): FactorRefusal {
  if (companyStatus !== 'active') return 'company_suspended'
  return userStatus === 'active' ? 'wrong_factor' : 'user_disabled'
}

/** @throws Problem invalid_request, cross_site_request */
function requireMode(request: SignInRequest, mode: SessionKind): void {
  if (request.mode !== undefined && request.mode !== mode)
    throw new Problem(
      'invalid_request',
      `The challenge is for ${mode} mode. Send X-Session-Mode: ${mode}, or omit the header.`,
      { errors: [{ path: '/headers/x-session-mode', message: `must be ${mode} or omitted` }] },
    )
  if (mode === 'cookie') request.requireSameSite()
}
