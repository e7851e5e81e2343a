import { clearLockout, type Identity } from '../company/identity-repository.ts'
import { type Tx, transact } from '../database/connect.ts'
import type { SessionKind } from '../database/schema.ts'
import type { Batched, Context } from '../http/context.ts'
import type { Client, Received } from '../limits/client.ts'
import type { CountedQuota } from '../limits/counters-repository.ts'
import { lockOwner } from '../second-factor/repository.ts'
import { actIn } from '../session/acts.ts'
import { endCookieSessionAcrossCompanies } from '../session/ending-repository.ts'
import { knownUntil, type Recognition } from '../session/known-clients.ts'
import type { Consume } from '../session/proof.ts'
import { type IssuedTokens, issueTokens, type Session } from '../session/session.ts'
import { newId } from '../system.ts'
import { insertSessions, type NewSession } from './opening-repository.ts'

const MAX_USER_AGENT = 256

interface Opening extends Received {
  mode: SessionKind
  formerCookie: string | undefined
  recognized: Recognition
  amr: string[]
  /** Counters that counted the correct password as a guess. */
  refunds: CountedQuota[]
  /** For a service password. */
  passwordEpoch?: number
}

export interface SignedIn {
  session: Session
  credential: { tokens: IssuedTokens } | { cookie: string; device: string | null }
}

const openings: Batched<NewSession, Date | null> = {
  name: 'openings',
  run: ({ db, config }, sessions) => insertSessions(db, sessions, config.maxSessionsPerMember),
}

/** Without `consume`, one statement confirms password, factors, and status. Null if any of them has changed. */
export async function openSession(
  context: Context,
  account: Identity,
  opening: Opening,
  consume?: Consume,
): Promise<SignedIn | null> {
  const { mode, formerCookie, recognized, passwordEpoch, now } = opening
  const cookie = mode === 'cookie' ? context.opaque.generate() : null
  const isByHash = !consume && passwordEpoch === undefined
  const session = {
    ...newSession(context, account, opening),
    cookieHash: cookie === null ? null : context.opaque.hash(cookie),
    passwordHash: isByHash ? account.passwordHash : null,
  }
  // In token mode, a browser keeps the session of its cookie.
  const formerHash = mode === 'token' || formerCookie === undefined ? null : context.opaque.hash(formerCookie)
  const endsAt =
    consume || formerHash !== null || account.lockedOutAt !== null
      ? await openInTransaction(context, account, { opening, session, formerHash, consume })
      : await context.inBatch(openings, session)
  if (!endsAt) return null
  const opened = { ...session, endsAt }
  const credential =
    cookie === null
      ? { tokens: await issueTokens(context, opened, now) }
      : { cookie, device: recognized.cookie }
  return { session: opened, credential }
}

function detailsOf(amr: string[], { via }: Client): string | null {
  const details = { ...(amr.length > 1 && { methods: amr }), ...(via && { via: via.userId }) }
  return Object.keys(details).length > 0 ? JSON.stringify(details) : null
}

function userAgentOf({ userAgent }: Client): string | undefined {
  return userAgent?.slice(0, MAX_USER_AGENT)
}

interface Transacted {
  opening: Opening
  session: NewSession
  formerHash: Buffer | null
  consume: Consume | undefined
}

async function openInTransaction(
  context: Context,
  account: Identity,
  { opening, session, formerHash, consume }: Transacted,
): Promise<Date | null> {
  const { db, config } = context
  return await transact<Date | null>(db, async (tx, rollBack) => {
    // Lock order: company, user, then challenges and sessions.
    await lockOwner(tx, account.companyId, account.userId)
    if (consume && !(await consume(tx))) throw rollBack(null)
    // First, so that the new session does not supersede a different one.
    if (formerHash !== null) await endFormerSession(context, tx, formerHash, opening)
    const [endsAt = null] = await insertSessions(tx, [session], config.maxSessionsPerMember)
    if (!endsAt) throw rollBack(null)
    if (account.lockedOutAt !== null && opening.amr.includes('pwd'))
      await tellOfLockout(context, tx, account, opening)
    return endsAt
  })
}

/** The browser drops its previous cookie, so copies of it must not stay valid (ASVS 7.2.4). */
async function endFormerSession({ system }: Context, tx: Tx, cookieHash: Buffer, opening: Opening) {
  const ended = await endCookieSessionAcrossCompanies(tx, cookieHash, new Date(opening.now))
  if (ended) await actIn(tx, system, ended, opening).audit('logout')
}

/** After a lockout, a correct password can be a lucky guess (ASVS 6.3.5). */
async function tellOfLockout({ system }: Context, tx: Tx, account: Identity, opening: Opening) {
  const { companyId, userId, email: recipient, passwordHash } = account
  if (!(await clearLockout(tx, companyId, userId, passwordHash))) return
  const { client } = opening
  const data = { ipAddress: client.ipAddress, userAgent: userAgentOf(client) }
  await actIn(tx, system, account, opening).mail({ kind: 'sign_in_after_lockout', recipient, data })
}

function newSession(
  { config, system }: Context,
  { passwordHash: _hash, emailVerifiedAt: _verified, lockedOutAt: _lockedOut, ...account }: Identity,
  { mode, client, recognized: { learns }, amr, refunds, passwordEpoch = 0, now }: Opening,
): Omit<NewSession, 'cookieHash' | 'passwordHash'> {
  const { ipAddress, network } = client
  const [idleSeconds, maxSeconds] =
    mode === 'cookie'
      ? [config.cookieIdleSeconds, config.cookieMaxAgeSeconds]
      : [config.refreshTokenTtlSeconds, config.sessionMaxAgeSeconds]
  const createdAt = new Date(now)
  return {
    ...account,
    sessionId: newId(system),
    kind: mode,
    generation: 0,
    createdAt,
    issuedAt: createdAt,
    expiresAt: new Date(now + Math.min(idleSeconds, maxSeconds) * 1000),
    maxExpiresAt: new Date(now + maxSeconds * 1000),
    provenAt: createdAt,
    amr,
    endReason: null,
    userAgent: userAgentOf(client) ?? null,
    ipAddress,
    network,
    passwordEpoch,
    learns,
    knownUntil: knownUntil(now),
    refunds,
    auditId: newId(system),
    details: detailsOf(amr, client),
    supersededAuditId: newId(system),
  }
}
