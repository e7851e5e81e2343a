import { isActive } from '../company/account.ts'
import { type NamedCompany, readNamedCompany } from '../company/handles.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { digestServicePassword } from '../crypto/service-password.ts'
import type { Turn } from '../edge/fair-queue.ts'
import {
  invalidField,
  type LimitState,
  Problem,
  type SecondFactorRequest,
  withLogContext,
} from '../errors.ts'
import { normalizeEmail } from '../http/email-address.ts'
import type { Client } from '../limits/client.ts'
import { issueSignInChallenge } from '../second-factor/challenges.ts'
import { countGuess, type Guess } from '../session/guesses.ts'
import type { Attempt } from '../session/known-clients.ts'
import { matchPassword } from '../session/passwords.ts'
import { createAccountLookUp, type Found, type LookUpAccount } from './account-look-up.ts'
import { type Opened, openSession, type SignedIn } from './opening.ts'
import { createRefusals, logContextOf, type RecordRefusal, reasonOf } from './refused-sign-ins.ts'
import type { SignInContext } from './second-step.ts'
import { type CountServiceSignIn, createServiceSignIns, type ServiceLimits } from './service-limits.ts'

/**
 * Sign-in by password: count the attempt, find the account, count a guess, match the password, open a session. Every
 * `invalid_credentials` comes after the same work (one look-up, one verification, one recorded refusal), so that neither
 * answer nor time tells which value was wrong. A password of the form of service passwords has its own way, whosever the e-mail
 * is: a digest is enough for it, and it is no guess.
 */

interface Parts extends SignInContext {
  lookUp: LookUpAccount
  recordRefusal: RecordRefusal
  countServiceSignIn: CountServiceSignIn
}

interface SignInRequest extends Attempt, NamedCompany {
  email: string
  password: string
  formerCookie: string | undefined
  client: Client
  servicePassword: ServiceLimits
}

type SignInAttempt = Omit<SignInRequest, keyof NamedCompany> & {
  company: ReturnType<typeof readNamedCompany>
}

/** @throws Problem invalid_request, permission_denied, rate_limited, overloaded, and the codes of a failed sign-in */
export type SignIn = (attempt: SignInRequest) => Promise<SignedIn>

export function createSignIn(context: SignInContext): SignIn {
  const parts = {
    ...context,
    lookUp: createAccountLookUp(context),
    recordRefusal: createRefusals(context),
    countServiceSignIn: createServiceSignIns(context),
  }
  return async (given) => {
    if (isTooLong(given.password))
      throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
    const { companyId: _companyId, company: _company, ...rest } = given
    // E-mails have several spellings; limits and audit entries use one.
    const attempt = { ...rest, company: readNamedCompany(given), email: normalizeEmail(given.email) }
    const digest = digestServicePassword(context.opaque, attempt.password)
    if (digest) return await signInService(parts, attempt, digest)
    const early = await lookUpEarly(parts, attempt)
    const device = early?.recognized.device
    const logContext = 'companyId' in attempt.company ? attempt.company : {}
    const place = { network: attempt.client.network, device, logContext }
    return await context.countAttempt(place, attempt.now, async (limit) =>
      signIn(parts, attempt, early ?? (await parts.lookUp(attempt)), limit),
    )
  }
}

/** Before counting, for those whom a flood must not lock out: known devices and, if the queue is full, known networks. */
async function lookUpEarly({ hasher, lookUp }: Parts, attempt: SignInAttempt): Promise<Found | undefined> {
  const { device, client } = attempt
  if (device === undefined) hasher.requireShare(client.network)
  if (device === undefined && hasher.hasPlace({ network: client.network, isKnown: false })) return undefined
  const found = await lookUp(attempt)
  hasher.requirePlace(turnOf(attempt, found))
  return found
}

function turnOf({ client }: SignInAttempt, { recognized: { device, isKnown } }: Found): Turn {
  return { ...client, device, isKnown }
}

async function signIn(
  parts: Parts,
  attempt: SignInAttempt,
  found: Found,
  limit: LimitState,
): Promise<SignedIn> {
  const { email, client, now } = attempt
  const { companyId } = found
  const { device, isKnown } = found.recognized
  const userId = found.account?.userId
  const guesser = { companyId, email, userId, networkOrDevice: device ?? client.network, isKnown, now }
  const { result, ...guess } = await countGuess(
    parts,
    guesser,
    (counted) => tryPassword(parts, attempt, found, counted),
    (tried) => typeof tried === 'object' && 'session' in tried,
  )
  if (result === null) {
    const logContext = await parts.recordRefusal(attempt, found, { reason: reasonOf(found, guess), guess })
    throw new Problem('invalid_credentials', WRONG, { limit: guess.ofPlace, logContext })
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
      { limit, secondFactor: result, logContext: logContextOf(found, 'factor_missing') },
    )
  return { ...result, limit }
}

const WRONG = 'Company, e-mail address or password is wrong.'

/** Why the right password opens no session. */
const NOT_NOW = {
  email_not_verified: ['email_not_verified', 'Open the link in the verification mail first, then sign in.'],
  token_mode_only: ['permission_denied', 'A service member signs in without X-Session-Mode: it gets tokens.'],
} as const

/** One look-up and one digest; what is correct is counted before it writes anything. */
async function signInService(
  parts: Parts,
  { password: _password, servicePassword, ...attempt }: SignInAttempt,
  digest: Buffer,
): Promise<SignedIn> {
  const named = 'companyId' in attempt.company ? attempt.company : {}
  await servicePassword.admit().catch((error: unknown) => {
    throw error instanceof Problem ? withLogContext(error, named) : error
  })
  const found = await parts.lookUp(attempt, digest)
  const { account, passwordEpoch, recognized } = found
  if (account && passwordEpoch !== null && isActive(account)) {
    servicePassword.noteHeld(account)
    const signedIn = await parts.countServiceSignIn(account, attempt.now, async (limit) => {
      if (attempt.mode === 'cookie') {
        const logContext = await parts.recordRefusal(attempt, found, { reason: 'token_mode_only' })
        const [code, detail] = NOT_NOW.token_mode_only
        throw new Problem(code, detail, { limit, logContext })
      }
      const opening = { ...attempt, recognized, amr: ['pwd'], refunds: [], passwordEpoch }
      const opened = await openSession(parts, account, opening)
      return opened && { ...opened, limit }
    })
    if (signedIn) return signedIn
  }
  const logContext = await parts.recordRefusal(attempt, found, {
    reason: reasonOf(found, { isBarred: false }),
  })
  const limit = await servicePassword.countRefusal()
  throw new Problem('invalid_credentials', WRONG, { limit, logContext })
}

/** Null if the password is wrong, or if user, password or factors have changed during the check. */
async function tryPassword(
  parts: Parts,
  attempt: SignInAttempt,
  found: Found,
  { isBarred, uses: refunds }: Guess,
): Promise<Opened | SecondFactorRequest | keyof typeof NOT_NOW | null> {
  const { password, servicePassword: _servicePassword, ...request } = attempt
  const account = await matchPassword(parts, {
    account: found.account,
    find: async () => (await parts.lookUp(attempt)).account,
    password,
    hasher: parts.hasher.inTurn(turnOf(attempt, found)),
    isBarred,
  })
  if (!account) return null
  if (!account.emailVerifiedAt) return 'email_not_verified'
  if (account.userKind === 'service' && request.mode === 'cookie') return 'token_mode_only'
  if (account.secondFactors.length > 0) return await issueSignInChallenge(parts, account, request)
  const { recognized } = found
  return await openSession(parts, account, { ...request, recognized, amr: ['pwd'], refunds })
}
