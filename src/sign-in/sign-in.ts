import { Problem, type SecondFactorRequest } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Turn } from '../limits/admission.ts'
import { issueSignInChallenge } from '../second-factor/challenges.ts'
import { countGuess, type Guess, matchPassword } from '../session/passwords.ts'
import {
  type Attempt,
  countAttempt,
  type Found,
  findAccount,
  logContextOf,
  type NotNow,
  readAttempt,
  reasonOf,
  recordRefusal,
} from './attempt.ts'
import { openSession, type SignedIn } from './opening.ts'
import { signInService } from './service-sign-in.ts'

/**
 * Sign-in by password: read the attempt, count it, find the account (before the count, for known devices), count the guess,
 * match the password, require the second factor, open the session. Every `invalid_credentials` comes after the same work (one
 * look-up, one verification, one recorded refusal), so neither response nor time tells which value was wrong. If the password
 * looks like a service password, a digest is enough and no guess is counted, whosever the email is.
 */

/** @throws Problem invalid_request, permission_denied, rate_limited, overloaded, and the codes of a failed sign-in */
export async function signIn(context: Context, given: Parameters<typeof readAttempt>[1]): Promise<SignedIn> {
  const attempt = readAttempt(context, given)
  if (attempt.digest) return await signInService(context, attempt)
  const early = await findEarly(context, attempt)
  return await countAttempt(context, attemptingOf(attempt, early), async () => {
    const found = early ?? (await findAccount(context, attempt))
    const { result, ...guess } = await countGuess(
      context,
      guesserOf(attempt, found),
      (counted) => tryPassword(context, attempt, found, counted),
      (tried) => typeof tried === 'object' && 'session' in tried,
    )
    if (result === null) {
      const refused = await recordRefusal(context, attempt, found, { reason: reasonOf(found, guess), guess })
      attempt.client.noteLimit(guess.ofNetwork)
      throw refused
    }
    if (typeof result === 'string') throw await recordRefusal(context, attempt, found, { reason: result })
    if ('challenge' in result) throw secondFactorRequired(found, result)
    return result
  })
}

/** Before counting, for those whom a flood must not lock out: known devices and, if the queue is full, known networks. */
async function findEarly(context: Context, attempt: Attempt): Promise<Found | undefined> {
  const { hasher } = context
  const { device, client } = attempt
  if (device === undefined && hasher.hasSlot({ network: client.network, isKnown: false })) return undefined
  const found = await findAccount(context, attempt)
  hasher.requireSlot(turnOf(attempt, found))
  return found
}

function turnOf({ client }: Attempt, { recognized: { device, isKnown } }: Found): Turn {
  return { ...client, device, isKnown }
}

function attemptingOf({ client, company, now }: Attempt, early: Found | undefined) {
  const logContext = 'companyId' in company ? company : {}
  return { client, device: early?.recognized.device, now, logContext }
}

function guesserOf(
  { email, client, now }: Attempt,
  { companyId, account, recognized: { device, isKnown } }: Found,
) {
  const networkOrDevice = device ?? client.network
  return { companyId, email, userId: account?.userId, networkOrDevice, isKnown, now }
}

/** Null if the password is wrong or barred, the user is not active, or user, password or factors have changed meanwhile. */
async function tryPassword(
  context: Context,
  attempt: Attempt,
  found: Found,
  { isBarred, uses: refunds }: Guess,
): Promise<SignedIn | SecondFactorRequest | NotNow | null> {
  const { password, servicePassword: _limits, digest: _digest, ...request } = attempt
  const account = await matchPassword(context, {
    account: found.account,
    find: async () => (await findAccount(context, attempt)).account,
    password,
    hasher: context.hasher.inTurn(turnOf(attempt, found)),
    isBarred,
  })
  if (!account) return null
  if (!account.emailVerifiedAt) return 'email_not_verified'
  // A service account whose password is older than service passwords.
  if (account.userKind === 'service' && request.mode === 'cookie') return 'token_mode_only'
  if (account.secondFactors.length > 0) return await issueSignInChallenge(context, account, request)
  const { recognized } = found
  return await openSession(context, account, { ...request, recognized, amr: ['pwd'], refunds })
}

function secondFactorRequired(found: Found, secondFactor: SecondFactorRequest): Problem {
  return new Problem(
    'second_factor_required',
    'The password is right. Send the second factor to /auth/login/second-factor, with the challenge of this answer.',
    { secondFactor, logContext: logContextOf(found, 'factor_missing') },
  )
}
