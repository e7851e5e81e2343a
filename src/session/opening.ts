import type { Kysely, Transaction } from 'kysely'
import { type AuditEntry, newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import type { Account } from '../company/account.ts'
import { clearLockout, type Identity } from '../company/identity-repository.ts'
import type { Config } from '../config.ts'
import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import type { Database, SessionKind } from '../database/schema.ts'
import type { Client } from '../limits/client.ts'
import { queueMail } from '../mail/service.ts'
import { newId, type System } from '../system.ts'
import { endCookieSessionAcrossCompanies } from './ending-repository.ts'
import * as repository from './opening-repository.ts'
import type { Session } from './session.ts'

/** Opens a session for an account whose password was verified. */

const MAX_USER_AGENT = 256

interface Context {
  db: Kysely<Database>
  config: Config
  system: System
}

interface Opening {
  mode: SessionKind
  formerCookie: string | undefined
  client: Client
  now: number
}

interface OpenedSession {
  session: Session
  /** The value of its cookie; null in token mode. */
  cookie: string | null
}

/** Rolls back the transaction if the session is not opened. */
class NotOpened extends Error {}

/** Returns null if user or company is no longer active, or the password has changed since it was checked. */
export async function openSession(
  context: Context,
  account: Identity,
  opening: Opening,
): Promise<OpenedSession | null> {
  const { passwordHash, emailVerifiedAt: _, lockedOutAt, ...rest } = account
  const { session, cookie } = newSession(context, rest, opening)
  const { client, formerCookie, now } = opening
  const row = {
    ...session,
    cookieHash: cookie === null ? null : hashOpaque(cookie),
    userAgent: client.userAgent?.slice(0, MAX_USER_AGENT) ?? null,
    ipAddress: client.ipAddress,
    passwordHash,
  }
  const entry = newEntry(context.system, new Date(now), {
    action: 'sign_in',
    outcome: 'done',
    actor: session.userId,
    sessionId: session.sessionId,
    ipAddress: client.ipAddress,
  })
  const former = formerCookie === undefined ? null : hashOpaque(formerCookie)
  const isOpened =
    former === null && lockedOutAt === null
      ? await repository.insertSession(context.db, session.companyId, row, entry)
      : await openInTransaction(context, account, opening, { row, entry, former })
  return isOpened ? { session, cookie } : null
}

/** Opens a session, clears the lockout with a mail, and ends the former session, in one transaction. */
async function openInTransaction(
  context: Context,
  account: Identity,
  opening: Opening,
  { row, entry, former }: { row: repository.NewSession; entry: AuditEntry; former: Buffer | null },
): Promise<boolean> {
  const transaction = context.db.transaction().execute(async (tx) => {
    // First, because insertSession locks the user's row in share mode: two transactions that hold that lock and
    // then update the row would deadlock.
    if (account.lockedOutAt !== null) await tellOfLockout(context, tx, account, opening)
    if (!(await repository.insertSession(tx, account.companyId, row, entry))) throw new NotOpened()
    if (former !== null) await endFormerSession(context, tx, former, opening)
    return true
  })
  return await transaction.catch((error: unknown) => {
    if (error instanceof NotOpened) return false
    throw error
  })
}

/** The browser does not use its former cookie again, so a copy of it must not stay valid (ASVS 7.2.4). */
async function endFormerSession(
  { system }: Context,
  tx: Transaction<Database>,
  cookieHash: Buffer,
  { client: { ipAddress }, now: ms }: Opening,
): Promise<void> {
  const now = new Date(ms)
  const ended = await endCookieSessionAcrossCompanies(tx, cookieHash, { reason: 'logout', now })
  if (!ended) return
  const { companyId, sessionId, userId: actor } = ended
  const about = { action: 'logout', outcome: 'done', actor, sessionId, ipAddress }
  await appendAudit(tx, companyId, newEntry(system, now, about))
}

/** A sign-in after a lockout can be a successful guess, so the user gets a mail (ASVS 6.3.5). */
async function tellOfLockout(
  { system }: Context,
  tx: Transaction<Database>,
  { companyId, userId, email: recipient, passwordHash }: Identity,
  { client, now }: Opening,
): Promise<void> {
  if (!(await clearLockout(tx, companyId, userId, passwordHash))) return
  const data = { ipAddress: client.ipAddress, userAgent: client.userAgent?.slice(0, MAX_USER_AGENT) }
  await queueMail(tx, system, companyId, { kind: 'sign_in_after_lockout', recipient, data, now })
}

function newSession({ config, system }: Context, account: Account, { mode, now }: Opening): OpenedSession {
  const [idleSeconds, maxSeconds] =
    mode === 'cookie'
      ? [config.cookieIdleSeconds, config.cookieMaxAgeSeconds]
      : [config.refreshTokenTtlSeconds, config.sessionMaxAgeSeconds]
  const createdAt = new Date(now)
  const session: Session = {
    ...account,
    sessionId: newId(system),
    kind: mode,
    generation: 0,
    createdAt,
    issuedAt: createdAt,
    expiresAt: new Date(now + Math.min(idleSeconds, maxSeconds) * 1000),
    maxExpiresAt: new Date(now + maxSeconds * 1000),
    endReason: null,
  }
  return { session, cookie: mode === 'cookie' ? generateOpaque(system.randomBytes) : null }
}
