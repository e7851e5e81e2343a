import type { SignInRefusal } from '../audit/entry.ts'
import type { Account } from '../company/account.ts'
import { type NamedCompany, nobodysId, readNamedCompany, resolveCompany } from '../company/handles.ts'
import type { Identity } from '../company/identity-repository.ts'
import { type RefusedSignIn, recordRefusedSignIns } from '../company/refused-sign-ins-repository.ts'
import { digestServicePassword } from '../crypto/opaque.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password.ts'
import type { SessionKind } from '../database/schema.ts'
import {
  invalidField,
  type LimitState,
  Problem,
  type RefusalContext,
  type SecondFactorRequest,
  withLogContext,
} from '../errors.ts'
import type { Batched, Context } from '../http/context.ts'
import { normalizeEmail } from '../http/email-address.ts'
import type { Applicant } from '../limits/admission.ts'
import {
  byClient,
  byDevice,
  type Client,
  type Quota,
  quotasOf,
  type Received,
  type Subject,
} from '../limits/client.ts'
import { isOurs } from '../limits/counters.ts'
import { issueSignInChallenge } from '../second-factor/challenges.ts'
import { type Recognition, recognize } from '../session/known-clients.ts'
import { countGuess, type Guess, matchPassword, tryGuess } from '../session/passwords.ts'
import { newId } from '../system.ts'
import { openSession, type SignedIn } from './opening.ts'
import { type Candidate, findCandidates, type SignInItem } from './repository.ts'

/**
 * Sign-in by password. Most take three statements: look-up; count of attempt and guess; new session or recorded refusal. Between
 * the last two, argon2 takes the same time whether or not the account exists.
 *
 * An attempt counts unless it fails through our fault. A guess counts if the password is wrong, or if the process ends between
 * the statements. The statement that opens the session refunds it; without a session, `tryGuess` refunds a correct password.
 */

export interface Attempt extends Received {
  mode: SessionKind
  /** Not recognized yet. */
  deviceCookie: string | undefined
  /** Its session ends when the new one opens. */
  formerCookie: string | undefined
  company: ReturnType<typeof readNamedCompany>
  email: string
  password: string
  /** Null unless the password looks like a service password. */
  digest: Buffer | null
  servicePassword: ServiceLimits
}

export interface ServiceLimits {
  /** @throws Problem rate_limited */
  admit(): Promise<void>
  /** After a wrong password. @throws Problem rate_limited */
  countRefusal(): Promise<LimitState>
  noteCorrect(account: Pick<Account, 'companyId' | 'companyHandle'>): void
}

/** @throws Problem invalid_request */
export function readAttempt(
  { opaque }: Pick<Context, 'opaque'>,
  { companyId, company, ...given }: NamedCompany & Omit<Attempt, 'company' | 'digest'>,
): Attempt {
  if (isTooLong(given.password)) throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
  return {
    ...given,
    company: readNamedCompany({ companyId, company }),
    // Limits and audit entries need one spelling of each email.
    email: normalizeEmail(given.email),
    digest: digestServicePassword(opaque, given.password),
  }
}

/** For a company's own server, people of other companies are unknown users, whose limits it cannot use up. */
export async function toOwnCompany({ db, system }: Context, attempt: Attempt): Promise<Attempt> {
  const { via } = attempt.client
  if (!via || (await resolveCompany(db, attempt.company)) === via.companyId) return attempt
  return { ...attempt, company: { companyId: via.companyId }, email: `${newId(system)}@nobody.invalid` }
}

/** @throws Problem permission_denied, rate_limited, overloaded, and the codes of a failed sign-in */
export async function signIn(context: Context, attempt: Attempt): Promise<SignedIn> {
  const { client, deviceCookie, company, now } = attempt
  const attempting = { client, now, device: undefined }
  // Others on its network must not lock out a device that may be known.
  if (deviceCookie === undefined)
    requireAttemptsLeft(context, attempting, 'companyId' in company ? company : {})
  const found = await findAccount(context, attempt)
  const { companyId, recognized } = found
  context.hasher.requireSlot(applicantOf(attempt, found))
  const { device } = recognized
  const attempts = requireAttemptsLeft(context, { ...attempting, device }, { companyId })
  const guess = await countGuess(context, { ...guesserOf(attempt, found), attempts })
  try {
    const result = await tryGuess(
      context,
      guess,
      () => tryPassword(context, attempt, found, guess),
      // The statement that opened the session has refunded it.
      (tried) => typeof tried === 'object' && 'session' in tried,
    )
    if (result === null) {
      const refused = await recordRefusal(context, attempt, found, { reason: reasonOf(found, guess), guess })
      client.noteLimit(guess.ofNetwork)
      throw refused
    }
    if (typeof result === 'string') throw await recordRefusal(context, attempt, found, { reason: result })
    if ('challenge' in result) throw secondFactorRequired(found, result)
    return result
  } catch (error) {
    if (isOurs(error)) {
      client.noteLimit(null)
      await context.counters.refund(attempts, error)
    }
    throw error
  }
}

function applicantOf({ client }: Attempt, { recognized: { device, isKnown } }: Found): Applicant {
  // In the hashing queue, a company's servers share the slots of one network, whatever they name.
  if (client.via) return { ...client, network: client.via.companyId, isKnown }
  return { ...client, device, isKnown }
}

function guesserOf(
  { email, client, now }: Attempt,
  { companyId, account, recognized: { device, isKnown } }: Found,
) {
  const networkOrDevice = device ?? client.network
  return { companyId, email, userId: account?.userId, networkOrDevice, isKnown, client, now }
}

/** Null if the password is wrong or barred, or if user, password, or factors no longer allow a sign-in. */
async function tryPassword(
  context: Context,
  attempt: Attempt,
  found: Found,
  { isBarred, uses: refunds }: Guess,
): Promise<SignedIn | SecondFactorRequest | NotNow | null> {
  const { password, servicePassword: _limits, digest: _digest, ...request } = attempt
  const account = await matchPassword(context, {
    account: found.account,
    findAgain: async () => (await findAccount(context, attempt)).account,
    password,
    hasher: context.hasher.admit(applicantOf(attempt, found)),
    isBarred,
  })
  if (!account) return null
  if (!account.emailVerifiedAt) return 'email_not_verified'
  // A service account whose password predates service passwords.
  if (account.userKind === 'service' && request.mode === 'cookie') return 'token_mode_only'
  if (account.secondFactors.length > 0) return await issueSignInChallenge(context, account, request)
  const { recognized } = found
  return await openSession(context, account, { ...request, recognized, amr: ['pwd'], refunds })
}

function secondFactorRequired(found: Found, secondFactor: SecondFactorRequest): Problem {
  return new Problem(
    'second_factor_required',
    'The password is correct, and a second factor is required. Send it with this challenge to POST /auth/login/second-factor.',
    { secondFactor, logContext: logContextOf(found, 'factor_missing') },
  )
}

interface Attempting {
  client: Pick<Client, 'network' | 'via'>
  /** Only if known: then it has its own limit. */
  device: string | undefined
  now: number
}

function subjectOf({ client, device }: Attempting): Subject {
  return device === undefined ? byClient(client) : byDevice(device, byClient(client))
}

/** Returns the quotas to use. Refuses without a statement if one was reached in the last second. @throws Problem rate_limited */
function requireAttemptsLeft(
  { counters, config }: Pick<Context, 'counters' | 'config'>,
  attempting: Attempting,
  logContext: RefusalContext = {},
): Quota[] {
  const quotas = quotasOf(config.limits.signInAttempts, subjectOf(attempting))
  const remembered = counters.usedUpMemory.find(quotas, attempting.now)
  if (remembered) throw withLogContext(remembered, logContext)
  return quotas
}

/** For passkeys. An attempt that fails through our fault is not counted. @throws Problem rate_limited */
export async function countAttempt<Result>(
  context: Pick<Context, 'counters' | 'config'>,
  attempting: Attempting & Pick<Received, 'client'>,
  attempt: () => Promise<Result>,
): Promise<Result> {
  const { counters, config } = context
  const { signInAttempts } = config.limits
  const quotas = requireAttemptsLeft(context, attempting)
  const counting = counters.consumeFor(signInAttempts, subjectOf(attempting), attempting, attempt)
  return await counting.catch((error: unknown) => {
    const name = error instanceof Problem && error.code === 'rate_limited' && error.extras.limit?.name
    const quota = quotas.find(({ limit }) => limit.name === name)
    if (quota && error instanceof Problem) counters.usedUpMemory.note(quota, error, attempting.now)
    throw error
  })
}

export interface Found extends Pick<Candidate, 'named' | 'companyStatus' | 'passwordEpoch'> {
  /** For an unknown handle, an ID that no company can have. */
  companyId: string
  /** Null if no user has this email, or a service password is wrong. */
  account: Identity | null
  recognized: Recognition
}

const lookUps: Batched<SignInItem, Candidate> = {
  name: 'sign_ins',
  run: ({ db }, items) => findCandidates(db, items),
}

export async function findAccount(
  context: Pick<Context, 'inBatch' | 'networkKeys' | 'opaque'>,
  attempt: Attempt,
): Promise<Found> {
  const { company, email, digest } = attempt
  const item = { companyId: null, handle: null, ...company, email, digest }
  const { identity: account, knownUntil, ...found } = await context.inBatch(lookUps, item)
  const companyId = found.companyId ?? ('handle' in company ? nobodysId(company.handle) : company.companyId)
  const recognized = recognize(context, companyId, knownUntil, attempt)
  return { ...found, companyId, account, recognized }
}

/** One statement at a time: a flood must not occupy all connections. */
const refusals: Batched<RefusedSignIn, 'recorded'> = {
  name: 'refused_sign_ins',
  maxInFlight: 1,
  async run({ db }, items) {
    await recordRefusedSignIns(db, items)
    return items.map(() => 'recorded')
  },
}

/** Only these refusals show that the password is correct. */
const NOT_NOW = {
  email_not_verified: [
    'email_not_verified',
    'Your email is not verified. Open the link in the verification email, then sign in.',
  ],
  token_mode_only: [
    'permission_denied',
    'Service accounts cannot use cookies. Sign in without X-Session-Mode to get tokens.',
  ],
} as const
type NotNow = keyof typeof NOT_NOW

/** Returns the problem to throw, after the commit. The last guess within a limit also notes a lockout. */
export async function recordRefusal(
  { inBatch, system }: Pick<Context, 'inBatch' | 'system'>,
  { email, client: { network, ipAddress }, now }: Attempt,
  found: Found,
  { reason, guess }: { reason: SignInRefusal; guess?: Guess },
): Promise<Problem> {
  const { companyId, named, recognized } = found
  await inBatch(refusals, {
    companyId,
    email,
    network,
    ipAddress,
    reason,
    userId: named?.userId ?? null,
    isKnown: recognized.isKnown,
    at: new Date(now),
    isLockout: guess?.ofNetwork.remaining === 0,
    isGuessed: guess?.ofAccount?.remaining === 0,
    mailId: newId(system),
  })
  const logContext = logContextOf(found, reason)
  if (reason !== 'email_not_verified' && reason !== 'token_mode_only') {
    const wrong = 'The company, email, or password is wrong. Check them and try again.'
    return new Problem('invalid_credentials', wrong, { logContext })
  }
  const [code, detail] = NOT_NOW[reason]
  return new Problem(code, detail, { logContext })
}

export function logContextOf({ companyId, named }: Found, reason: SignInRefusal): RefusalContext {
  return { companyId, ...(named && { userId: named.userId }), reason }
}

/** If a correct password would fail too, the reason does not show whether this one was correct. */
export function reasonOf(
  { named, companyStatus }: Found,
  { isBarred }: Pick<Guess, 'isBarred'>,
): SignInRefusal {
  if (companyStatus === null || companyStatus === 'deleting') return 'unknown_company'
  if (companyStatus === 'suspended') return 'company_suspended'
  if (!named) return 'unknown_user'
  if (named.userStatus !== 'active') return 'user_disabled'
  return isBarred ? 'locked_out' : 'wrong_password'
}
