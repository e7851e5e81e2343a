import { createHash } from 'node:crypto'
import type { MemberIds } from '../company/account.ts'
import type { Identity } from '../company/identity-repository.ts'
import { requestOptions } from '../crypto/passkeys.ts'
import { lastStepAt } from '../crypto/totp.ts'
import type { Tx } from '../database/connect.ts'
import type { SessionKind } from '../database/schema.ts'
import type { SecondFactorRequest } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { type Session, sessionEnded } from '../session/session.ts'
import * as repository from './challenges-repository.ts'
import { countRecoveryCodes } from './codes-repository.ts'
import { listFactors } from './repository.ts'
import type { Method } from './schemas.ts'

/**
 * Opaque challenges, stored as hashes, for second factors and passkeys. One for sign-in by passkey is stored only when it
 * is used, because anyone can start such a sign-in.
 */

const CHALLENGE_MS = 300_000

/** After the correct password. Null if password or factors have changed since. */
export async function issueSignInChallenge(
  context: Context,
  account: Identity,
  { mode, ...received }: Received & { mode: SessionKind },
): Promise<SecondFactorRequest | null> {
  const { companyId, userId } = account
  const { challenge, row } = newChallenge(context, received)
  const about = { ...row, userId, purpose: 'sign_in', mode, sessionId: null, isPasswordProven: true } as const
  if (!(await repository.insertSignIn(context.db, account, about))) return null
  return await describe(context, { companyId, userId }, challenge)
}

/** For re-authentication: by any factor or, without the password, by passkey. @throws Problem session_ended */
export async function issueProofChallenge(
  context: Context,
  session: Session,
  isPasswordProven: boolean,
  received: Received,
): Promise<SecondFactorRequest> {
  const about = { purpose: 'proof', isPasswordProven } as const
  const challenge = await issueSessionChallenge(context, session, about, received)
  const request = await describe(context, session, challenge)
  return isPasswordProven ? request : { ...request, methods: ['passkey'] }
}

/** @throws Problem session_ended */
export async function issueSessionChallenge(
  context: Context,
  { companyId, userId, sessionId }: Session,
  about: Pick<repository.NewChallenge, 'purpose' | 'isPasswordProven'>,
  received: Received,
): Promise<string> {
  const { challenge, row } = newChallenge(context, received)
  const inserted = { ...row, ...about, userId, sessionId, mode: null }
  if (!(await repository.insertOfSession(context.db, companyId, inserted))) throw sessionEnded()
  return challenge
}

function newChallenge({ opaque }: Context, { client: { network, ipAddress }, now }: Received) {
  const challenge = opaque.generate()
  const hash = opaque.hash(challenge)
  if (!hash) throw new Error('a new challenge has no hash')
  const times = { createdAt: new Date(now), expiresAt: new Date(now + CHALLENGE_MS) }
  return { challenge, row: { ...times, hash, network, ipAddress } }
}

async function describe(
  { db, config, digests }: Context,
  { companyId, userId }: MemberIds,
  challenge: string,
): Promise<SecondFactorRequest> {
  const factors = await listFactors(db, companyId, userId)
  const passkeys = factors.filter((factor) => factor.kind === 'passkey')
  const methods: Method[] = [...new Set(factors.map(({ kind }) => kind))].sort()
  if ((await countRecoveryCodes(db, companyId, userId, digests.keyIds)) > 0) methods.push('recovery_code')
  return {
    challenge,
    methods,
    ...(passkeys.length > 0 && { passkeyOptions: requestOptions(config.passkeys, challenge, passkeys) }),
  }
}

const MODES: readonly SessionKind[] = ['token', 'cookie']
const NONCE_BYTES = 16
const HEAD_BYTES = 1 + 6 + NONCE_BYTES
const PURPOSE = 'sign-in by passkey'

type Making = Pick<Context, 'system' | 'digests' | 'opaque'>

/** In base64url: mode, expiry, random bytes, and a keyed digest that authenticates them. */
export function issueUnstored({ system, digests, opaque }: Making, mode: SessionKind, now: number): string {
  const head = Buffer.alloc(HEAD_BYTES)
  head.writeUInt8(MODES.indexOf(mode), 0)
  head.writeUIntBE(now + CHALLENGE_MS, 1, 6)
  system.randomBytes(NONCE_BYTES).copy(head, 7)
  const { digest } = digests.current(PURPOSE, opaque.tag + head.toString('base64url'))
  return opaque.tag + Buffer.concat([head, digest]).toString('base64url')
}

/** Null unless it is ours and has not expired. `hash` marks it as used. */
export function readUnstored({ digests, opaque }: Omit<Making, 'system'>, challenge: string, now: number) {
  const tag = challenge.startsWith(opaque.tag) ? opaque.tag : ''
  const bytes = Buffer.from(challenge.slice(tag.length), 'base64url')
  // A challenge has only one spelling, so that it can't be used twice.
  if (bytes.length <= HEAD_BYTES || tag + bytes.toString('base64url') !== challenge) return null
  const [head, code] = [bytes.subarray(0, HEAD_BYTES), bytes.subarray(HEAD_BYTES)]
  if (!digests.matches(code, PURPOSE, tag + head.toString('base64url'))) return null
  const mode = MODES[head.readUInt8(0)]
  const expiresAt = head.readUIntBE(1, 6)
  if (!mode || expiresAt <= now) return null
  return { mode, expiresAt: new Date(expiresAt), hash: createHash('sha256').update(bytes).digest() }
}

/** How far the clocks of instances can differ. */
const SKEW_MS = 60_000

/** A restored backup lacks recent uses, so existing challenges and codes become invalid, and new ones for up to 2 minutes. */
export async function voidEarlierProofsAcrossCompanies(tx: Tx, now: number): Promise<void> {
  const expiresAt = new Date(now + CHALLENGE_MS + SKEW_MS)
  await repository.consumeUntilAcrossCompanies(tx, { expiresAt, step: lastStepAt(now + SKEW_MS) })
}
