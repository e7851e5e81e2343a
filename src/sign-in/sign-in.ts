import { Problem, type SecondFactorRequest } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Applicant } from '../limits/admission.ts'
import { isOurs } from '../limits/counters.ts'
import { issueSignInChallenge } from '../second-factor/challenges.ts'
import { countGuess, type Guess, matchPassword, tryGuess } from '../session/passwords.ts'
import {
  type Attempt,
  attemptsLeft,
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
 * Sign-in by password: read the attempt, find the account, count attempt and guess, match the password, require the second
 * factor, open the session. Every `invalid_credentials` comes after the same work (one look-up, one verification, one recorded
 * refusal), so neither response nor time tells which value was wrong. If the password looks like a service password, a digest is
 * enough and no guess is counted, whosever the email is.
 */

/** @throws Problem invalid_request, permission_denied, rate_limited, overloaded, and the codes of a failed sign-in */
export async function signIn(context: Context, given: Parameters<typeof readAttempt>[1]): Promise<SignedIn> {
  const attempt = readAttempt(context, given)
  if (attempt.digest) return await signInService(context, attempt)
  const { client, device, company } = attempt
  // Others of its network cannot keep out a browser with a device cookie, until it is known whether it is the member's.
  if (device === undefined) attemptsLeft(context, attempt, 'companyId' in company ? company : {})
  const found = await findAccount(context, attempt)
  const { companyId, recognized } = found
  context.hasher.requireSlot(applicantOf(attempt, found))
  const attempts = attemptsLeft(context, { ...attempt, device: recognized.device }, { companyId })
  const guess = await countGuess(context, { ...guesserOf(attempt, found), attempts })
  try {
    const result = await tryGuess(
      context,
      guess,
      () => tryPassword(context, attempt, found, guess),
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
  return { ...client, device, isKnown }
}

function guesserOf(
  { email, client, now }: Attempt,
  { companyId, account, recognized: { device, isKnown } }: Found,
) {
  const networkOrDevice = device ?? client.network
  return { companyId, email, userId: account?.userId, networkOrDevice, isKnown, client, now }
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
    hasher: context.hasher.admit(applicantOf(attempt, found)),
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
