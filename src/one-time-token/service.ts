import type { Kysely, Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database, TokenPurpose } from '../database/schema.ts'
import { invalidField, type Problem } from '../errors.ts'
import type { System } from '../system.ts'
import * as repository from './repository.ts'
import { generateToken, hashToken, LIFETIME_SECONDS } from './token.ts'
import { type FoundUndo, findUndoAcrossCompanies } from './undo-repository.ts'

/** One-time tokens are made when their mail is sent, and consumed in the transaction of their effect. */

interface NewLinkToken {
  token: string
  expiresAt: Date
  /** Replaces older tokens. Call it after the mail is sent: an earlier link is valid until then. */
  noteSent(): Promise<void>
}

/** Null if a later request has a token for the same, or its mail is gone. The lifetime starts at `now`. */
export async function issueToken(
  { db, system }: { db: Executor; system: System },
  companyId: string,
  about: {
    purpose: TokenPurpose
    email: string
    role?: string | undefined
    userId?: string | undefined
    isFactorProven?: boolean | undefined
    mailId: string
    requestedAt: Date
    now: number
  },
): Promise<NewLinkToken | null> {
  const { purpose, email, role = null, userId = null, isFactorProven = false } = about
  const { mailId, requestedAt: createdAt, now } = about
  const { token, hash } = generateToken(system, purpose)
  const expiresAt = new Date(now + LIFETIME_SECONDS[purpose] * 1000)
  const row = { purpose, email, hash, role, userId, isFactorProven, mailId, createdAt, expiresAt }
  if (!(await repository.insertToken(db, companyId, row))) return null
  return { token, expiresAt, noteSent: () => repository.noteSent(db, companyId, row) }
}

/** @throws Problem invalid_request if it is not valid */
export async function peekToken(
  db: Executor,
  purpose: TokenPurpose,
  token: string,
  now: number,
): Promise<repository.FoundToken> {
  const hash = hashToken(purpose, token)
  const found = hash && (await repository.findTokenAcrossCompanies(db, purpose, hash, new Date(now)))
  if (!found) throw noSuchToken()
  return found
}

/** @throws Problem invalid_request if it is not valid */
export async function findUndo(
  db: Executor,
  token: string,
  now: number,
): Promise<FoundUndo & { hash: Buffer }> {
  const hash = hashToken('undo', token)
  const found = hash && (await findUndoAcrossCompanies(db, hash, new Date(now)))
  if (!found) throw noSuchToken()
  return { ...found, hash }
}

/** If the effect fails, the token stays valid. @throws Problem invalid_request if it is not valid */
export async function consumeToken<Result>(
  db: Kysely<Database>,
  purpose: TokenPurpose,
  token: string,
  now: number,
  effect: (tx: Transaction<Database>, consumed: repository.ConsumedToken) => Promise<Result>,
): Promise<Result> {
  const hash = hashToken(purpose, token)
  if (!hash) throw noSuchToken()
  return await db.transaction().execute(async (tx) => {
    // The lock order of a password change, too: mails, tokens, user, sessions.
    if (purpose === 'reset') await repository.deleteUnsentResetsAcrossCompanies(tx, hash)
    const consumed = await repository.consumeTokenAcrossCompanies(tx, purpose, hash, new Date(now))
    if (!consumed) throw noSuchToken()
    return await effect(tx, consumed)
  })
}

export function noSuchToken(): Problem {
  const detail = 'The link does not work, or no longer; ask for a new one.'
  return invalidField('token', 'is unknown, used, replaced or expired', detail)
}
