import { normalizeEmail } from '../company/checks.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import type { SessionKind } from '../database/schema.ts'
import type { Turn } from '../edge/turn-queue.ts'
import { invalidField, Problem, type SecondFactorRequest } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import type { LimitState } from '../limits/list.ts'
import { askForSignIn } from '../second-factor/challenges.ts'
import { createAccountLookUp, type Found, type LookUpAccount } from './account-look-up.ts'
import { countGuess, type Guess } from './guesses.ts'
import { type Opened, openSession, type SignedIn } from './opening.ts'
import { matchPassword } from './password-match.ts'
import { createRefusals, logContextOf, type RecordRefusal, reasonOf } from './refused-sign-ins.ts'
import type { SignInContext } from './second-step.ts'

/** Sign-in by password; second-step.ts opens sessions too. A refusal does not reveal which of the values was wrong. */

interface Parts extends SignInContext {
  lookUp: LookUpAccount
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

/**
 * Opens a session for the right password, unless the user has a second factor. Every `invalid_credentials` comes after the
 * same work: one look-up, one verification, one recorded refusal.
 * @throws Problem invalid_request, invalid_credentials, second_factor_required, email_not_verified, rate_limited, overloaded
 */
export type SignIn = (attempt: SignInAttempt) => Promise<SignedIn>

export function createSignIn(context: SignInContext): SignIn {
  const parts = { ...context, lookUp: createAccountLookUp(context), recordRefusal: createRefusals(context) }
  return async (given) => {
    if (isTooLong(given.password))
      throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
    // Ids and e-mails have several spellings; limits and audit entries use one.
    const companyId = given.companyId.toLowerCase()
    const attempt = { ...given, companyId, email: normalizeEmail(given.email) }
    const early = await lookUpEarly(parts, attempt)
    const device = early?.recognized.device
    const place = { network: attempt.client.network, device, logContext: { companyId } }
    return await context.countAttempt(place, attempt.now, async (limit) =>
      signIn(parts, attempt, early ?? (await parts.lookUp(attempt)), limit),
    )
  }
}

/**
 * Before anything is counted, it is looked up whether the client is known where that matters: with a device cookie, since a
 * known device has attempts of its own, and where the queue has no place for strangers.
 */
async function lookUpEarly({ hasher, lookUp }: Parts, attempt: SignInAttempt): Promise<Found | undefined> {
  const { device, client } = attempt
  if (device === undefined && hasher.hasPlace({ network: client.network, isKnown: false })) return undefined
  const found = await lookUp(attempt)
  hasher.requirePlace(turnOf(attempt, found))
  return found
}

function turnOf({ client: { network } }: SignInAttempt, { recognized: { device, isKnown } }: Found): Turn {
  return { network, device, isKnown }
}

/** Refusals of who knows the password. */
const NOT_NOW = {
  email_not_verified: ['email_not_verified', 'Open the link in the verification mail first, then sign in.'],
  token_mode_only: ['permission_denied', 'A service member signs in without X-Session-Mode: it gets tokens.'],
} as const

async function signIn(
  parts: Parts,
  attempt: SignInAttempt,
  found: Found,
  limit: LimitState,
): Promise<SignedIn> {
  const { companyId, email, client, now } = attempt
  const { device, isKnown } = found.recognized
  const userId = found.account?.userId
  const guesser = { companyId, email, userId, networkOrDevice: device ?? client.network, isKnown, now }
  const guess = await countGuess(
    parts,
    guesser,
    (counted) => tryPassword(parts, attempt, found, counted),
    (result) => typeof result === 'object' && 'session' in result,
  )
  const { result } = guess
  if (result === null) {
    const reason = reasonOf(found, guess)
    const logContext = await parts.recordRefusal(attempt, found, { reason, guess })
    const detail = 'Company, e-mail address or password is wrong.'
    throw new Problem('invalid_credentials', detail, { limit: guess.ofPlace, logContext })
  }
  if (typeof result === 'string') {
    const logContext = await parts.recordRefusal(attempt, found, { reason: result })
    const [code, detail] = NOT_NOW[result]
    throw new Problem(code, detail, { limit, logContext })
  }
  if ('challenge' in result)
    throw new Problem(
      'second_factor_required',
      'The password is right. Send the second factor to /auth/login/second-factor, with the challenge of this answer.',
      { limit, secondFactor: result, logContext: logContextOf(companyId, found, 'factor_missing') },
    )
  return { ...result, limit }
}

/** What comes of a password that was counted as a guess; null if it is wrong. */
async function tryPassword(
  parts: Parts,
  attempt: SignInAttempt,
  found: Found,
  { isBarred, uses: refunds }: Guess,
): Promise<Opened | SecondFactorRequest | keyof typeof NOT_NOW | null> {
  const { password, mode, formerCookie, client, now } = attempt
  const account = await matchPassword(parts, {
    account: found.account,
    find: async () => (await parts.lookUp(attempt)).account,
    password,
    hasher: parts.hasher.inTurn(turnOf(attempt, found)),
    isBarred,
  })
  if (!account) return null
  if (!account.emailVerifiedAt) return 'email_not_verified'
  if (account.userKind === 'service' && mode === 'cookie') return 'token_mode_only'
  if (account.secondFactors.length > 0) return await askForSignIn(parts, account, attempt)
  // Null if the user was disabled, or the password was changed, while this one was checked.
  const { recognized } = found
  return await openSession(parts, account, {
    mode,
    formerCookie,
    client,
    recognized,
    amr: ['pwd'],
    refunds,
    now,
  })
}
