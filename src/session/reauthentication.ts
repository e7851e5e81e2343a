import type { AuditEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { generateOpaque, hashOpaque } from '../crypto/opaque.ts'
import { invalidField } from '../errors.ts'
import type { Client } from '../limits/client.ts'
import type { Counters } from '../limits/counters.ts'
import type { LimitedHasher } from '../limits/hashing.ts'
import { entryOf, matchOwnPassword } from './own-password.ts'
import { proveByCookie } from './proof-repository.ts'
import { policyOf, type Refreshed, type RotationContext, toAnswer, toRotation } from './rotation.ts'
import { createRotation } from './rotation-repository.ts'
import { type Session, sessionEnded } from './session.ts'

/**
 * A user proves again who they are. The session gets new credentials with it, so that those of before, which somebody can
 * have copied, have no part in the proof (ASVS 7.2.4).
 */

interface Context extends RotationContext {
  hasher: LimitedHasher
  counters: Counters
}

export interface Reauthentication {
  password: string
  /** The session cookie of the request; undefined with an access token. */
  cookie: string | undefined
  idempotencyKey: string | undefined
  client: Client
  now: number
}

export type Reauthenticated = { cookie: string } | Refreshed

/**
 * Returns a new cookie, whose predecessor is dead, or the next pair of tokens, as a refresh does.
 * @throws Problem invalid_request, session_ended, idempotency_conflict, rate_limited, overloaded
 */
export type Reauthenticate = (session: Session, request: Reauthentication) => Promise<Reauthenticated>

/** RFC 8176 */
const METHODS = ['pwd']

export function createReauthentication(context: Context): Reauthenticate {
  return async (session, request) => {
    const { password, cookie, client, now } = request
    const act = { action: 'reauthenticate', client, now }
    // Not 401, which means to clients that the session has ended.
    if ((await matchOwnPassword(context, session, password, act)) === null)
      throw invalidField('password', 'is wrong')
    const entry = entryOf(context, session, act, 'done')
    return cookie === undefined
      ? await nextPair(context, session, request, entry)
      : await nextCookie(context, session, cookie, entry)
  }
}

async function nextPair(
  context: Context,
  { companyId, sessionId, userId }: Session,
  { idempotencyKey, client: { ipAddress }, now }: Reauthentication,
  entry: AuditEntry,
): Promise<Refreshed> {
  const token = { companyId, sessionId, userId, generation: null }
  const rotation = toRotation(context, token, { idempotencyKey, ipAddress, now })
  const outcome = await context.db.transaction().execute(async (tx) => {
    const [found = null] = await createRotation(tx, policyOf(context.config), { amr: METHODS })([rotation])
    if (found?.verdict === 'rotated') await appendAudit(tx, companyId, entry)
    return found
  })
  return await toAnswer(context, outcome, now)
}

async function nextCookie(
  { db, system }: Context,
  { companyId, sessionId }: Session,
  former: string,
  entry: AuditEntry,
): Promise<{ cookie: string }> {
  const cookie = generateOpaque(system.randomBytes)
  const proof = { before: hashOpaque(former), after: hashOpaque(cookie), at: entry.occurredAt, amr: METHODS }
  await db.transaction().execute(async (tx) => {
    if (!(await proveByCookie(tx, companyId, sessionId, proof))) throw sessionEnded()
    await appendAudit(tx, companyId, entry)
  })
  return { cookie }
}
