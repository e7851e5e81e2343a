import type { Opaque } from '../crypto/opaque.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { TokenPurpose } from '../database/schema.ts'
import { invalidField, type Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { byNetwork, type Received } from '../limits/client.ts'
import * as repository from './repository.ts'

/**
 * One-time tokens are created when their email is sent, and consumed in the transaction of their effect.
 * @throws Problem invalid_request for an invalid token
 */

/** Starts when the email is sent. */
const LIFETIME_SECONDS: Record<TokenPurpose, number> = {
  verify: 24 * 3600,
  reset: 3600,
  invite: 72 * 3600,
  confirm: 24 * 3600,
  undo: 72 * 3600,
}

/** As long as an invitation, because an operator passes it on. */
const PRINTED_SECONDS = 72 * 3600

type Reading = Pick<Context, 'db' | 'opaque'>

interface Presented {
  purpose: TokenPurpose
  token: string
  now: number
}

export async function countAttempt({ counters, config }: Context, received: Received): Promise<void> {
  await counters.consume(config.limits.oneTimeTokens, byNetwork(received.client.network), received)
}

/** Null if a later request has a token, or the email is gone. The lifetime starts at `now`. */
export async function issueToken(
  { db, opaque }: { db: Executor; opaque: Opaque },
  companyId: string,
  { now, ...about }: Omit<repository.NewToken, 'hash' | 'expiresAt'> & { now: number },
) {
  const { token, hash } = generateToken(opaque, about.purpose)
  const expiresAt = new Date(now + LIFETIME_SECONDS[about.purpose] * 1000)
  const row = { ...about, hash, expiresAt }
  if (!(await repository.insertToken(db, companyId, row))) return null
  /** Replaces older tokens. Call it after the email is sent: earlier links work until then. */
  const noteSent = () => repository.noteSent(db, companyId, row)
  return { token, expiresAt, noteSent }
}

function generateToken(opaque: Opaque, purpose: TokenPurpose): { token: string; hash: Buffer } {
  const token = opaque.generate(`${purpose}_`)
  const hash = opaque.hash(token, `${purpose}_`)
  if (!hash) throw new Error('a new token has no hash')
  return { token, hash }
}

export async function issuePrintedReset(
  tx: Tx,
  opaque: Opaque,
  companyId: string,
  { email, now }: { email: string; now: number },
): Promise<{ token: string; expiresAt: Date }> {
  const { token, hash } = generateToken(opaque, 'reset')
  const [createdAt, expiresAt] = [new Date(now), new Date(now + PRINTED_SECONDS * 1000)]
  await repository.insertPrintedReset(tx, companyId, { email, hash, createdAt, expiresAt })
  return { token, expiresAt }
}

export async function peekToken({ db, opaque }: Reading, { purpose, token, now }: Presented) {
  const hash = opaque.hash(token, `${purpose}_`)
  const found = hash && (await repository.findTokenAcrossCompanies(db, purpose, hash, new Date(now)))
  if (!found) throw noSuchToken()
  return found
}

export async function findUndo({ db, opaque }: Reading, token: string, now: number) {
  const hash = opaque.hash(token, 'undo_')
  const found = hash && (await repository.findUndoAcrossCompanies(db, hash, new Date(now)))
  if (!found) throw noSuchToken()
  return { ...found, hash }
}

/** If the effect fails, the token stays valid. */
export async function consumeToken<Result>(
  { db, opaque }: Reading,
  { purpose, token, now }: Presented,
  effect: (tx: Tx, consumed: repository.ConsumedToken) => Promise<Result>,
): Promise<Result> {
  const hash = opaque.hash(token, `${purpose}_`)
  if (!hash) throw noSuchToken()
  return await db.transaction().execute(async (tx) => {
    // Lock order, as in a password change: emails, tokens, user, sessions.
    if (purpose === 'reset') await repository.deleteUnsentResetsAcrossCompanies(tx, hash)
    const consumed = await repository.consumeTokenAcrossCompanies(tx, purpose, hash, new Date(now))
    if (!consumed) throw noSuchToken()
    return await effect(tx, consumed)
  })
}

export function noSuchToken(): Problem {
  const detail = 'This link is invalid or has expired. Request a new one.'
  return invalidField('token', 'is invalid, used, replaced, or expired', detail)
}
