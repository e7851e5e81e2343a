import type { Kysely } from 'kysely'
import { normalizeEmail } from '../company/checks.ts'
import type { Identity } from '../company/identity-fragments.ts'
import type { Config } from '../config.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { type Batch, createBatch, type MeasureBatch } from '../database/batch.ts'
import { isOutage } from '../database/faults.ts'
import type { CompanyStatus, Database, SessionKind } from '../database/schema.ts'
import type { Turn } from '../edge/turn-queue.ts'
import { invalidField, Problem, type SecondFactorRequest, withLogContext } from '../errors.ts'
import { type Admission, createAdmission } from '../limits/admission.ts'
import type { Client } from '../limits/client.ts'
import { type Counters, isOurs } from '../limits/counters.ts'
import type { LimitedHasher } from '../limits/hashing.ts'
import type { LimitState } from '../limits/list.ts'
import { createRecentRefusals, type RecentRefusals } from '../limits/recent-refusals.ts'
import type { Session } from '../session/session.ts'
import { type IssuedTokens, issueTokens } from '../session/session-tokens.ts'
import type { System } from '../system.ts'
import type { Tokens } from '../token/service.ts'
import type { KnownClients, Recognition } from './known-clients.ts'
import { type OpenedSession, openSession } from './opening.ts'
import { matchPassword } from './password-match.ts'
import { createRefusals, isBarred, logContextOf, type RecordRefusal, reasonOf } from './refused-sign-ins.ts'
import { type Counted, countersOf, readCounts } from './sign-in-counters.ts'
import { type Candidate, findAndCount, findCandidates, type SignInItem } from './sign-in-repository.ts'

/** Sign-in by password; second-factor/sign-in.ts opens sessions too. A refusal does not reveal which of the values was wrong. */

/** Begins the second step of a sign-in by password; null if password or factors have changed meanwhile. */
export type AskForSecondFactor = (
  account: Identity,
  step: { mode: SessionKind; client: Client; now: number },
) => Promise<SecondFactorRequest | null>

interface Context {
  db: Kysely<Database>
  config: Config
  askForSecondFactor: AskForSecondFactor
  system: System
  tokens: Tokens
  hasher: LimitedHasher
  counters: Counters
  knownClients: KnownClients
  measureBatch: MeasureBatch
}

interface Parts extends Context {
  find: Batch<SignInItem, Candidate | null>
  /** Bounds the statements that wait for a counter, so that a flood does not occupy all connections. */
  counting: Admission
  refusals: RecentRefusals
  recordRefusal: RecordRefusal
}

interface SignInAttempt {
  companyId: string
  email: string
  password: string
  mode: SessionKind
  /** The session cookie of the request; the new session replaces its session. */
  formerCookie: string | undefined
  /** The device cookie of the request. */
  device: string | undefined
  client: Client
  now: number
}

export interface SignedIn {
  session: Session
  credential: { tokens: IssuedTokens } | { cookie: string; device: string | null }
  /** The limit that counted the request, if one did. */
  limit: LimitState | undefined
}

/** Statements that count at once, and attempts that wait for it. Their networks take turns. */
const COUNTING = {
  places: 4,
  bounds: { max: 1_000, maxPerWiderNetwork: 250 },
  refusal: 'Too many sign-ins at once; try again in a moment.',
  isOutage,
}

/**
 * Opens a session for the right password, unless the user has a second factor. Every `invalid_credentials` comes after the
 * same work: one look-up, one verification, one recorded refusal.
 * @throws Problem invalid_request, invalid_credentials, second_factor_required, email_not_verified, rate_limited, overloaded
 */
export type SignIn = (attempt: SignInAttempt) => Promise<SignedIn>

export function createSignIn(context: Context): SignIn {
  const { db, measureBatch } = context
  const parts: Parts = {
    ...context,
    find: createBatch({ run: measureBatch('sign_ins', (items) => findCandidates(db, items)) }),
    counting: createAdmission(COUNTING),
    refusals: createRecentRefusals(),
    recordRefusal: createRefusals(context),
  }
  return (given) => {
    if (isTooLong(given.password))
      throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
    // Ids and e-mails have several spellings; limits and audit entries use one.
    return signIn(parts, {
      ...given,
      companyId: given.companyId.toLowerCase(),
      email: normalizeEmail(given.email),
    })
  }
}

async function signIn(parts: Parts, attempt: SignInAttempt): Promise<SignedIn> {
  const { hasher, counters } = parts
  const { network } = attempt.client
  // Where there is no place for strangers, nothing is counted before it is known whether this is one.
  const isPlaceLeft = hasher.hasPlace({ network, isKnown: false })
  if (!isPlaceLeft) hasher.requirePlace(turnOf(attempt, await lookUp(parts, attempt)))
  const counted = await countAttempt(parts, attempt)
  try {
    return await signInWith(parts, attempt, counted)
  } catch (error) {
    if (isOurs(error)) await counters.refund(counted.uses.attempts, attempt.now).catch(() => {})
    throw error
  }
}

function turnOf({ client: { network } }: SignInAttempt, { recognized }: Found): Turn {
  return { network, device: recognized.device, isKnown: recognized.isKnown }
}

async function signInWith(parts: Parts, attempt: SignInAttempt, counted: FoundAndCounted): Promise<SignedIn> {
  const { recordRefusal } = parts
  const { attempts: limit, failures } = counted
  const result = await tryPassword(parts, attempt, counted)
  if (!result) {
    const reason = reasonOf(counted)
    const logContext = await recordRefusal(attempt, counted, { reason, isGuess: true })
    const detail = 'Company, e-mail address or password is wrong.'
    throw new Problem('invalid_credentials', detail, { limit: failures, logContext })
  }
  if (result === 'email_not_verified') {
    const logContext = await recordRefusal(attempt, counted, { reason: result, isGuess: false })
    const detail = 'Open the link in the verification mail first, then sign in.'
    throw new Problem('email_not_verified', detail, { limit, logContext })
  }
  if (result === 'token_mode_only') {
    const logContext = await recordRefusal(attempt, counted, { reason: result, isGuess: false })
    const detail = 'A service member signs in without X-Session-Mode: it gets tokens.'
    throw new Problem('permission_denied', detail, { limit, logContext })
  }
  if ('challenge' in result)
    throw new Problem(
      'second_factor_required',
      'The password is right. Send the second factor to /auth/login/second-factor, with the challenge of this answer.',
      { limit, secondFactor: result, logContext: logContextOf(attempt, counted.account, 'factor_missing') },
    )
  const { session, cookie } = result
  const credential =
    cookie === null
      ? { tokens: await issueTokens(parts, session, attempt.now) }
      : { cookie, device: counted.recognized.cookie }
  return { session, credential, limit }
}

/** Opens a session; null if the password is wrong. A guess that is not wrong is given back. */
async function tryPassword(
  parts: Parts,
  attempt: SignInAttempt,
  counted: FoundAndCounted,
): Promise<OpenedSession | SecondFactorRequest | 'email_not_verified' | 'token_mode_only' | null> {
  const { hasher, counters } = parts
  const { password, now } = attempt
  const turn = turnOf(attempt, counted)
  // The attempt has had its effect, so a failed refund must not turn it into an error.
  const refund = () => counters.refund(counted.uses.guess, now).catch(() => {})
  try {
    // Now, since places may have been taken meanwhile.
    hasher.requirePlace(turn)
    const account = await matchPassword(parts, {
      account: counted.account,
      find: async () => (await lookUp(parts, attempt)).account,
      password,
      hasher: hasher.inTurn(turn),
      isBarred: isBarred(counted),
    })
    if (account && !account.emailVerifiedAt) {
      await refund()
      return 'email_not_verified'
    }
    if (account?.userKind === 'service' && attempt.mode === 'cookie') {
      await refund()
      return 'token_mode_only'
    }
    if (account && account.secondFactors.length > 0) {
      const asked = await parts.askForSecondFactor(account, attempt)
      if (asked) await refund()
      return asked
    }
    // Null if the user was disabled, or the password was changed, while this one was checked.
    return account && (await openSession(parts, account, openingOf(parts, attempt, counted)))
  } catch (error) {
    await refund()
    throw error
  }
}

/** The account, and whether network and device of the client are known for it. */
interface Found {
  account: Identity | null
  recognized: Recognition
}

interface FoundAndCounted extends Found, Counted {
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
}

async function lookUp({ find, knownClients }: Parts, attempt: SignInAttempt): Promise<Found> {
  const item = itemOf(knownClients, attempt)
  return toFound(knownClients, attempt, item, await find(item))
}

/** Looks up and counts by one statement. @throws Problem rate_limited */
async function countAttempt(parts: Parts, attempt: SignInAttempt): Promise<FoundAndCounted> {
  const { db, config, knownClients, counters, counting, refusals } = parts
  const { companyId, email, client, now } = attempt
  const item = itemOf(knownClients, attempt)
  const device = item.device?.toString('base64url')
  const quotas = countersOf(config.limits, { companyId, email, network: client.network, device })
  const refusal = refusals.find(quotas.ofNetwork.attempts, now)
  // Anyone can send a device cookie, so only a known device may ask again.
  if (refusal && !(device && (await lookUp(parts, attempt)).recognized.device)) throw refusal
  const turn = { network: client.network, isKnown: false }
  const { candidate, companyStatus, isKnownDevice, counts } = await counting.run(turn, () =>
    findAndCount(db, item, quotas, now),
  )
  const chain = (isKnownDevice && quotas.ofDevice) || quotas.ofNetwork
  const counted = readCounts(chain, quotas.ofAccount, counts, now)
  if ('refusal' in counted) {
    const { quota, before } = counted
    if (chain.attempts.includes(quota)) refusals.note(quota, counted.refusal, now)
    await counters.refund(before, now).catch(() => {})
    const reason = chain.failures.includes(quota) ? 'locked_out' : undefined
    throw withLogContext(counted.refusal, logContextOf(attempt, candidate?.identity ?? null, reason))
  }
  return { ...toFound(knownClients, attempt, item, candidate), companyStatus, ...counted }
}

function itemOf(knownClients: KnownClients, { companyId, email, client, device }: SignInAttempt): SignInItem {
  return { companyId, email, ...knownClients.digestsOf(companyId, client.network, device) }
}

const NOT_KNOWN = { networkKnownUntil: null, deviceKnownUntil: null }

function toFound(
  knownClients: KnownClients,
  attempt: SignInAttempt,
  digests: SignInItem,
  candidate: Candidate | null,
): Found {
  return {
    account: candidate?.identity ?? null,
    recognized: knownClients.recognize(candidate?.known ?? NOT_KNOWN, digests, attempt),
  }
}

function openingOf(
  { knownClients }: Parts,
  { mode, formerCookie, client, now }: SignInAttempt,
  { recognized: { learns }, uses }: FoundAndCounted,
) {
  const knownUntil = knownClients.knownUntil(now)
  return { mode, formerCookie, client, learns, knownUntil, amr: ['pwd'], refunds: uses.guess, now }
}
