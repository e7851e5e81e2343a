import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import {
  findPasswordHash,
  type Identity,
  noteLockout,
  replacePasswordHash,
} from '../company/identity-repository.ts'
import { isTooLong, type PasswordHasher } from '../crypto/password.ts'
import { type LimitState, rateLimited, withLogContext } from '../errors.ts'
import type { Context } from '../http/context.ts'
import type { Applicant } from '../limits/admission.ts'
import { byNetwork, type Client, type Quota, quotasOf, tightest } from '../limits/client.ts'
import type { Actor } from './acts.ts'
import { isActive } from './session.ts'

/** Whether a password is that of an account at sign-in, or that of a user with a session; and the limits of guesses. */

interface Guesser {
  companyId: string
  email: string
  userId: string | undefined
  /** The device if it is known for the member. */
  networkOrDevice: string
  isKnown: boolean
  /** At sign-in, what counts attempts, right or wrong. They come first, in the same statement. */
  attempts?: Quota[]
  client: Pick<Client, 'noteLimit'>
  now: number
}

export interface Guess {
  ofNetwork: LimitState
  /** Null if the limit was used up before. */
  ofAccount: LimitState | null
  /** Whether any password fails, after the work of a wrong one. */
  isBarred: boolean
  uses: Quota[]
}

/**
 * The one rule for sign-in and password change: a guess counts before the password is checked, so that parallel ones cannot
 * exceed a limit. When all networks together have used up the account's limit, only known clients can sign in.
 * @throws Problem rate_limited
 */
export async function countGuess(
  { counters, config: { limits } }: Pick<Context, 'counters' | 'config'>,
  { companyId, email, userId, networkOrDevice, isKnown, attempts = [], client, now }: Guesser,
): Promise<Guess> {
  const network = quotasOf(limits.signInFailures, byNetwork(networkOrDevice, companyId, email))
  const quotas = [...attempts, ...network, ...quotasOf(limits.accountFailures, [companyId, email])]
  const { states, usedUp } = await counters.consumeInOrder(quotas, now)
  const counted = quotas.slice(0, states.length)
  if (usedUp && states.length < attempts.length) {
    const refusal = rateLimited(usedUp)
    const quota = attempts[states.length]
    if (quota) counters.usedUpMemory.note(quota, refusal, now)
    await counters.refund(counted)
    throw withLogContext(refusal, { companyId })
  }
  if (attempts.length > 0) client.noteLimit(tightest(states.slice(0, attempts.length)))
  const [uses, guesses] = [counted.slice(attempts.length), states.slice(attempts.length)]
  if (usedUp && guesses.length < network.length) {
    await counters.refund(uses)
    throw withLogContext(rateLimited(usedUp), { companyId, ...(userId && { userId }), reason: 'locked_out' })
  }
  const ofAccount = guesses[network.length] ?? null
  return {
    ofNetwork: tightest(guesses.slice(0, network.length)),
    ofAccount,
    isBarred: !ofAccount && !isKnown,
    uses,
  }
}

/** Refunds the guess unless it was wrong (null), or `isRefunded` by its own statement. What throws is no guess. */
export async function tryGuess<Result>(
  { counters }: Pick<Context, 'counters'>,
  { uses }: Guess,
  attempt: () => Promise<Result | null>,
  isRefunded: (result: Result) => boolean = () => false,
): Promise<Result | null> {
  const result = await attempt().catch(async (error: unknown) => {
    await counters.refund(uses, error)
    throw error
  })
  if (result !== null && !isRefunded(result)) await counters.refundFirst(uses)
  return result
}

interface Match {
  account: Identity | null
  /** Reads the account again. */
  find(): Promise<Identity | null>
  password: string
  hasher: PasswordHasher
  /** Whether any password fails, after the work of a wrong one. */
  isBarred: boolean
}

/** Renews a hash that was made with other parameters. */
export async function matchPassword(context: Pick<Context, 'db'>, match: Match): Promise<Identity | null> {
  const { account, find, password, hasher, isBarred } = match
  const matched = (await hasher.verify(account?.passwordHash, password)) && !isBarred ? account : null
  const isDue = matched?.emailVerifiedAt && isActive(matched) && hasher.isOutdated(matched.passwordHash)
  // Of several renewals at the same time one succeeds; the others must match the hash that it has stored.
  const current =
    matched && isDue ? ((await renewHash(context, matched, match)) ?? (await matchAgain())) : matched
  return current && isActive(current) ? current : null

  async function matchAgain(): Promise<Identity | null> {
    const renewed = await find()
    return (await hasher.verify(renewed?.passwordHash, password)) ? renewed : null
  }
}

/** Null if the stored hash has changed meanwhile. */
async function renewHash({ db }: Pick<Context, 'db'>, account: Identity, { hasher, password }: Match) {
  const after = await hasher.hash(password)
  const change = { before: account.passwordHash, after }
  const isRenewed = await replacePasswordHash(db, account.companyId, account.userId, change)
  return isRenewed ? { ...account, passwordHash: after } : null
}

/** A user with a session is known, from every network. */
export function applicantOf({ client }: Pick<Actor, 'client'>): Applicant {
  return { ...client, isKnown: true }
}

/** The hash that the password matches; null if it is wrong. Found by the ID: the email can belong to a different user by now. */
export async function matchOwnPassword(
  { db, hasher }: Pick<Context, 'db' | 'hasher'>,
  actor: Actor,
  password: string,
): Promise<string | null> {
  const { companyId, userId } = actor.session
  const hash = await findPasswordHash(db, companyId, userId)
  const matches = await hasher.admit(applicantOf(actor)).verify(hash, password)
  return matches && hash !== undefined ? hash : null
}

/**
 * For a password change: a wrong one counts as a failed sign-in. The last guess within the limit notes a lockout, and the next
 * sign-in mails it. @throws Problem rate_limited, overloaded
 */
export async function matchCurrentPassword(
  context: Pick<Context, 'db' | 'system' | 'hasher' | 'counters' | 'config'>,
  actor: Actor,
  password: string,
): Promise<string | null> {
  if (isTooLong(password)) return null
  const { db, system } = context
  const { session, client, now } = actor
  const { companyId, userId, sessionId, email } = session
  const { network: networkOrDevice, isKnown } = applicantOf(actor)
  const guesser = { companyId, userId, email, networkOrDevice, isKnown, client, now }
  const guess = await countGuess(context, guesser)
  const result = await tryGuess(context, guess, () => matchOwnPassword(context, actor, password))
  if (result !== null) return result
  const { ipAddress } = client
  const about = { action: 'password_change', outcome: 'refused', actor: userId, sessionId, ipAddress }
  const entry = newEntry(system, new Date(now), about)
  if (guess.ofNetwork.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, userId, entry)
  return null
}
