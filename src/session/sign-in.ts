import type { Kysely } from 'kysely'
import { normalizeEmail } from '../company/checks.ts'
import type { RefusedSignIn } from '../company/refused-sign-ins-repository.ts'
import type { Config } from '../config.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { type Batch, createBatch, type MeasureBatch } from '../database/batch.ts'
import type { Database, SessionKind } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import type { Counters } from '../limits/counters.ts'
import type { LimitedHasher } from '../limits/hashing.ts'
import type { LimitState } from '../limits/list.ts'
import { byDevice, byNetwork } from '../limits/subject.ts'
import type { Turn } from '../limits/turn-queue.ts'
import { newId, type System } from '../system.ts'
import type { Tokens } from '../token/service.ts'
import type { KnownClients, Recognition } from './known-clients.ts'
import { openSession } from './opening.ts'
import { countGuess, type Guess } from './password-guesses.ts'
import { matchPassword } from './password-match.ts'
import { createRefusals, type RecordRefusal } from './refused-sign-ins.ts'
import type { Session } from './session.ts'
import { type IssuedTokens, issueTokens } from './session-tokens.ts'
import { type Candidate, findCandidates, type SignInItem } from './sign-in-repository.ts'

/** Sign-in: the only way to open a session. A refusal does not reveal which of the values was wrong. */

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  tokens: Tokens
  hasher: LimitedHasher
  counters: Counters
  knownClients: KnownClients
  measureBatch: MeasureBatch
}

interface Parts extends Context {
  find: Batch<SignInItem, Candidate | null>
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

interface SignedIn {
  session: Session
  credential: { tokens: IssuedTokens } | { cookie: string; device: string | null }
  limit: LimitState
}

/**
 * Opens a session for the right password. Every `invalid_credentials` comes after the same work: one look-up,
 * one verification, one recorded refusal.
 * @throws Problem invalid_request, invalid_credentials, email_not_verified, rate_limited, overloaded
 */
export type SignIn = (attempt: SignInAttempt) => Promise<SignedIn>

export function createSignIn(context: Context): SignIn {
  const { db, measureBatch } = context
  const parts: Parts = {
    ...context,
    find: createBatch({ run: measureBatch('sign_ins', (items) => findCandidates(db, items)) }),
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
  const { config, counters, hasher } = parts
  const { network } = attempt.client
  const found = await lookUp(parts, attempt)
  const { device, isKnown } = found.recognized
  const turn = { network, device, isKnown }
  // Before anything is counted, since the client is told to try again.
  hasher.requirePlace(turn)
  const subject = device === undefined ? byNetwork(network) : byDevice(device, network)
  const limit = config.limits.signInAttempts
  return await counters.consumeFor(limit, subject, attempt.now, (state) =>
    signInInTurn(parts, attempt, { ...found, turn, limit: state }),
  )
}

interface Found extends Awaited<ReturnType<typeof lookUp>> {
  turn: Turn
  limit: LimitState
}

async function signInInTurn(
  parts: Parts,
  attempt: SignInAttempt,
  { find, account: found, recognized, turn, limit }: Found,
): Promise<SignedIn> {
  const { hasher, recordRefusal } = parts
  const { companyId, email, password, now } = attempt
  const { network, device, isKnown } = turn
  const guesser = { companyId, email, networkOrDevice: device ?? network, isKnown, now }
  const guess = await countGuess(parts, guesser, async (isBarred) => {
    const matching = { account: found, find, password, hasher: hasher.inTurn(turn), isBarred }
    const account = await matchPassword(parts, matching)
    if (!account) return null
    if (!account.emailVerifiedAt) return 'unverified'
    // Null if the user was disabled, or the password was changed, while this one was checked.
    return await openSession(parts, account, openingOf(parts, attempt, recognized))
  })
  const { result, guesses } = guess
  if (!result) {
    await recordRefusal(refusalOf(parts, attempt, 'wrong_password', guess))
    throw new Problem('invalid_credentials', 'Company, e-mail address or password is wrong.', {
      limit: guesses,
    })
  }
  if (result === 'unverified') {
    await recordRefusal(refusalOf(parts, attempt, 'email_not_verified'))
    const detail = 'Open the link in the verification mail first, then sign in.'
    throw new Problem('email_not_verified', detail, { limit })
  }
  const { session, cookie } = result
  const credential =
    cookie === null
      ? { tokens: await issueTokens(parts, session, now) }
      : { cookie, device: recognized.cookie }
  return { session, credential, limit }
}

const NOT_KNOWN = { networkKnownUntil: null, deviceKnownUntil: null }

/** The account, and whether network and device of the client are known for it, by one statement. */
async function lookUp({ find, knownClients }: Parts, attempt: SignInAttempt) {
  const { companyId, email, client, device } = attempt
  const digests = knownClients.digestsOf(companyId, client.network, device)
  const findCandidate = () => find({ companyId, email, ...digests })
  const candidate = await findCandidate()
  return {
    account: candidate?.identity ?? null,
    find: async () => (await findCandidate())?.identity ?? null,
    recognized: knownClients.recognize(candidate?.known ?? NOT_KNOWN, digests, attempt),
  }
}

function openingOf(
  { knownClients }: Parts,
  { mode, formerCookie, client, now }: SignInAttempt,
  { learns }: Recognition,
) {
  return { mode, formerCookie, client, learns, knownUntil: knownClients.knownUntil(now), now }
}

function refusalOf(
  { system }: Context,
  { companyId, email, client, now }: SignInAttempt,
  kind: RefusedSignIn['kind'],
  guess?: Guess<unknown>,
): RefusedSignIn {
  return {
    companyId,
    email,
    network: client.network,
    ipAddress: client.ipAddress,
    kind,
    at: new Date(now),
    isLockout: guess?.guesses.remaining === 0,
    isGuessed: guess?.ofAccount?.remaining === 0,
    mailId: newId(system),
  }
}
