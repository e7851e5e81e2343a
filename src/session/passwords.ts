import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { isActive } from '../company/account.ts'
import {
  findPasswordHash,
  type Identity,
  noteLockout,
  replacePasswordHash,
} from '../company/identity-repository.ts'
import type { PasswordHasher } from '../crypto/password.ts'
import { isTooLong } from '../crypto/password-policy.ts'
import type { Context } from '../http/context.ts'
import type { Turn } from '../limits/admission.ts'
import type { Actor } from './acts.ts'
import { countGuess } from './guesses.ts'

/** Whether a password is that of an account at sign-in, or that of a user with a session. */

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
  const matched = (await verify(hasher, account, password)) && !isBarred ? account : null
  const isDue = matched?.emailVerifiedAt && isActive(matched) && hasher.isOutdated(matched.passwordHash)
  // Of several renewals at the same time one succeeds; the others must match the hash that it has stored.
  const current =
    matched && isDue ? ((await renewHash(context, matched, match)) ?? (await matchAgain())) : matched
  return current && isActive(current) ? current : null

  async function matchAgain(): Promise<Identity | null> {
    const renewed = await find()
    return (await verify(hasher, renewed, password)) ? renewed : null
  }
}

async function verify(hasher: PasswordHasher, account: Identity | null, password: string): Promise<boolean> {
  return await hasher.verify(account?.passwordHash, password)
}

/** Null if the stored hash has changed meanwhile. */
async function renewHash({ db }: Pick<Context, 'db'>, account: Identity, { hasher, password }: Match) {
  const after = await hasher.hash(password)
  const change = { before: account.passwordHash, after }
  const isRenewed = await replacePasswordHash(db, account.companyId, account.userId, change)
  return isRenewed ? { ...account, passwordHash: after } : null
}

/** A user with a session is known, from every network. */
export function turnOf({ client }: Pick<Actor, 'client'>): Turn {
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
  const matches = await hasher.inTurn(turnOf(actor)).verify(hash, password)
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
  const { network: networkOrDevice, isKnown } = turnOf(actor)
  const guesser = { companyId, userId, email, networkOrDevice, isKnown, now }
  const { result, ofNetwork } = await countGuess(context, guesser, () =>
    matchOwnPassword(context, actor, password),
  )
  if (result !== null) return result
  const about = {
    action: 'password_change',
    outcome: 'refused',
    actor: userId,
    sessionId,
    ipAddress: client.ipAddress,
  }
  const entry = newEntry(system, new Date(now), about)
  if (ofNetwork.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, userId, entry)
  return null
}
