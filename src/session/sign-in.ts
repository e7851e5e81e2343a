import type { Kysely } from 'kysely'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
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
import { countGuess, recordWrongGuess } from './guess.ts'
import { openSession } from './opening.ts'
import type { Session } from './session.ts'
import { type IssuedTokens, issueTokens } from './session-tokens.ts'

/** Who can open a session: the one way in, and the same answer for everybody who does not get in. */

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
  /** The session cookie that came with the request: the new session takes its place. */
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
 * Opens a session for the right password. Every failure is one answer after the same work: one look-up, one
 * verification, one audit entry.
 * @throws Problem invalid_credentials, email_not_verified, rate_limited, overloaded
 */
export type SignIn = (attempt: SignInAttempt) => Promise<SignedIn>

export function createSignIn(context: Context): SignIn {
  const findAccount: FindAccount = createBatch({
    run: (items) => findAccountsByEmail(context.db, items),
  })
  return (attempt) => context.admission.attempt(() => signIn(context, findAccount, attempt))
}

async function signIn(context: Context, findAccount: FindAccount, given: SignInAttempt): Promise<SignedIn> {
  const { config, counters } = context
  if (isTooLong(given.password)) throw invalidField('password', `must have at most ${MAX_LENGTH} characters`)
  // An id has two spellings, and an e-mail many: one of them is counted and recorded.
  const attempt = { ...given, companyId: given.companyId.toLowerCase(), email: normalizeEmail(given.email) }
  const { client, now } = attempt
  const limit = await counters.consume(config.limits.signInAttempts, [client.network], now)
  const guesser = { ...attempt, network: client.network }
  const { result, guesses } = await countGuess(context, guesser, async () => {
    const account = await findMatch(context, findAccount, attempt)
    if (!account) return null
    if (!account.emailVerifiedAt) return 'unverified'
    // Null if the user was disabled or got another password while this one was checked.
    return await openSession(context, account, attempt)
  })
  if (!result) {
    await recordWrongGuess(context, guesser, guesses, entryOf(context, attempt, 'refused'))
    throw new Problem('invalid_credentials', 'Company, e-mail address or password is wrong.', {
      limit: guesses,
    })
  }
  if (result === 'unverified') {
    await appendAudit(context.db, attempt.companyId, entryOf(context, attempt, 'email_not_verified'))
    const detail = 'Open the link in the verification mail first, then sign in.'
    throw new Problem('email_not_verified', detail, { limit })
  }
  const { session, cookie } = result
  const credential = cookie === null ? { tokens: await issueTokens(context, session, now) } : { cookie }
  return { session, credential, limit }
}

function entryOf({ system }: Context, { email: actor, client, now }: SignInAttempt, outcome: string) {
  const { ipAddress } = client
  return newEntry(system, new Date(now), { action: 'sign_in', outcome, actor, ipAddress })
}

/** The account that can sign in with that password, its hash made with the parameters of today. */
async function findMatch(
  context: Context,
  findAccount: FindAccount,
  attempt: SignInAttempt,
): Promise<Identity | null> {
  const find = () => findIdentity(context, findAccount, attempt)
  const account = await find()
  const isDue = account?.emailVerifiedAt && isActive(account) && isOutdated(account.passwordHash)
  // Of several that renew it one wins, and the others have to match what that one stored.
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

/** Stores the hash with the parameters of today; null if it has changed meanwhile. */
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
