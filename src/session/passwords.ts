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
import type { CountedQuota } from '../limits/counters-repository.ts'
import type { Actor } from './acts.ts'
import { isActive } from './session.ts'

/** Checks passwords at sign-in and of signed-in users, and limits guesses. */

interface Guesser {
  companyId: string
  email: string
  userId: string | undefined
  networkOrDevice: string
  isKnown: boolean
  /** At sign-in, the counters of all attempts, which come first in the same statement. */
  attempts?: Quota[]
  client: Pick<Client, 'noteLimit'>
  now: number
}

export interface Guess {
  ofNetwork: LimitState
  /** Null if the limit was already reached. */
  ofAccount: LimitState | null
  /** If true, even the correct password fails, after the same work. */
  isBarred: boolean
  uses: CountedQuota[]
}

/**
 * A guess counts before the password is checked, so that parallel guesses cannot exceed a limit. Once all networks together
 * have reached the account's limit, only known clients can sign in. @throws Problem rate_limited
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
    // Only IPv6 networks have the second level.
    uses: uses.map((quota, index) => ({ ...quota, level: index < network.length ? index : 2 })),
  }
}

/** Refunds the guess unless it was wrong (null) or its own statement refunded it. An attempt that throws is not a guess. */
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
  findAgain(): Promise<Identity | null>
  password: string
  hasher: PasswordHasher
  isBarred: boolean
}

/** Renews a hash with outdated parameters. */
export async function matchPassword(context: Pick<Context, 'db'>, match: Match): Promise<Identity | null> {
  const { account, findAgain, password, hasher, isBarred } = match
  const matched = (await hasher.verify(account?.passwordHash, password)) && !isBarred ? account : null
  const isDue = matched?.emailVerifiedAt && isActive(matched) && hasher.isOutdated(matched.passwordHash)
  // Of concurrent renewals, one succeeds; the others must match the hash that it stored.
  const current =
    matched && isDue ? ((await renewHash(context, matched, match)) ?? (await matchAgain())) : matched
  return current && isActive(current) ? current : null

  async function matchAgain(): Promise<Identity | null> {
    const renewed = await findAgain()
    return (await hasher.verify(renewed?.passwordHash, password)) ? renewed : null
  }
}

/** Null if the stored hash has changed in the meantime. */
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

/** The matching hash, or null. Found by the ID, because the email may belong to a different user now. */
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

/** A wrong password counts as a failed sign-in; the last one notes a lockout. @throws Problem rate_limited, overloaded */
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
