import type { Kysely } from 'kysely'
import { isActive } from '../company/account.ts'
import { normalizeEmail } from '../company/checks.ts'
import { findAccountsByEmail, type Identity, replacePasswordHash } from '../company/identity-repository.ts'
import type { Config } from '../config.ts'
import { isOutdated, type PasswordHasher } from '../crypto/password.ts'
import { isTooLong, MAX_LENGTH } from '../crypto/password-policy.ts'
import { type Batch, createBatch } from '../database/batch.ts'
import type { Database, SessionKind } from '../database/schema.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Admission } from '../limits/admission.ts'
import type { Client } from '../limits/client.ts'
import type { Counters } from '../limits/counters.ts'
import type { LimitState } from '../limits/list.ts'
import type { System } from '../system.ts'
import type { Tokens } from '../token/service.ts'
import { openSession } from './opening.ts'
import { countGuess } from './password-guesses.ts'
import { createRefusals, type RecordRefusal } from './refused-sign-ins.ts'
import type { Session } from './session.ts'
import { type IssuedTokens, issueTokens } from './session-tokens.ts'

/** Sign-in: the only way to open a session. A refusal does not reveal which of the values was wrong. */

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
  tokens: Tokens
  hasher: PasswordHasher
  counters: Counters
  admission: Admission
}

type FindAccount = Batch<{ companyId: string; email: string }, Identity | null>

interface SignInAttempt {
  companyId: string
  email: string
  password: string
  mode: SessionKind
  /** The session cookie of the request; the new session replaces its session. */
  formerCookie: string | undefined
  client: Client
  now: number
}

interface SignedIn {
  session: Session
  credential: { tokens: IssuedTokens } | { cookie: string }
  limit: LimitState
}

/**
 * Opens a session for the right password. Every `invalid_credentials` comes after the same work: one look-up,
 * one verification, one recorded refusal.
 * @throws Problem invalid_request, invalid_credentials, email_not_verified, rate_limited, overloaded
 */
export type SignIn = (attempt: SignInAttempt) => Promise<SignedIn>

export function createSignIn(context: Context): SignIn {
  const findAccount: FindAccount = createBatch({
    run: (items) => findAccountsByEmail(context.db, items),
  })
  const recordRefusal = createRefusals(context.db)
  const batches = { findAccount, recordRefusal }
  return (attempt) => context.admission.attempt(() => signIn(context, batches, attempt))
}

async function signIn(
  context: Context,
  { findAccount, recordRefusal }: { findAccount: FindAccount; recordRefusal: RecordRefusal },
  given: SignInAttempt,
): Promise<SignedIn> {
  const { config, counters } = context
  if (isTooLong(given.password)) throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
  // Ids and e-mails have several spellings; limits and audit entries use one.
  const attempt = { ...given, companyId: given.companyId.toLowerCase(), email: normalizeEmail(given.email) }
  const { client, now } = attempt
  const limit = await counters.consume(config.limits.signInAttempts, [client.network], now)
  const guesser = { ...attempt, network: client.network }
  const { result, guesses } = await countGuess(context, guesser, async () => {
    const account = await findMatch(context, findAccount, attempt)
    if (!account) return null
    if (!account.emailVerifiedAt) return 'unverified'
    // Null if the user was disabled, or the password was changed, while this one was checked.
    return await openSession(context, account, attempt)
  })
  const { companyId, email } = attempt
  const refusal = { companyId, email, network: client.network, at: new Date(now) }
  if (!result) {
    const isLockout = guesses.remaining === 0
    await recordRefusal({ ...refusal, kind: 'wrong_password', isLockout })
    throw new Problem('invalid_credentials', 'Company, e-mail address or password is wrong.', {
      limit: guesses,
    })
  }
  if (result === 'unverified') {
    await recordRefusal({ ...refusal, kind: 'email_not_verified', isLockout: false })
    const detail = 'Open the link in the verification mail first, then sign in.'
    throw new Problem('email_not_verified', detail, { limit })
  }
  const { session, cookie } = result
  const credential = cookie === null ? { tokens: await issueTokens(context, session, now) } : { cookie }
  return { session, credential, limit }
}

/** The active account that the password matches. Renews a hash that was made with other parameters. */
async function findMatch(
  context: Context,
  findAccount: FindAccount,
  attempt: SignInAttempt,
): Promise<Identity | null> {
  const find = () => findIdentity(context, findAccount, attempt)
  const account = await find()
  const isDue = account?.emailVerifiedAt && isActive(account) && isOutdated(account.passwordHash)
  // One of several concurrent renewals succeeds; the others must match the hash that it stored.
  const current =
    account && isDue ? ((await renewHash(context, account, attempt.password)) ?? (await find())) : account
  return current && isActive(current) ? current : null
}

async function findIdentity(
  { hasher }: Context,
  findAccount: FindAccount,
  { companyId, email, password }: SignInAttempt,
): Promise<Identity | null> {
  const account = await findAccount({ companyId, email })
  const matches = await hasher.verify(account?.passwordHash, password)
  return matches ? account : null
}

/** Stores a hash with the current parameters; null if the stored hash has changed meanwhile. */
async function renewHash(
  { db, hasher }: Context,
  account: Identity,
  password: string,
): Promise<Identity | null> {
  const after = await hasher.hash(password)
  const change = { before: account.passwordHash, after }
  const isRenewed = await replacePasswordHash(db, account.companyId, account.userId, change)
  return isRenewed ? { ...account, passwordHash: after } : null
}
