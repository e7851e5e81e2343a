import { type AuditEntry, newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { findAccountsByEmail, noteLockout } from '../company/identity-repository.ts'
import type { Context } from '../context.ts'
import { isTooLong } from '../crypto/password-policy.ts'
import type { Client } from '../limits/client.ts'
import type { Session } from '../session/session.ts'
import { countGuess } from './guesses.ts'

/** Whether a user with a session knows the password. Wrong guesses count together with those at sign-in. */

/** An act for which the user gives the password. */
export interface Act {
  action: string
  client: Client
  now: number
}

/** A user with a session is known, from every network. */
export function turnOf({ client }: Pick<Act, 'client'>) {
  return { network: client.network, isKnown: true }
}

/**
 * Returns the hash that the password matches; null if it is wrong. The last guess within the limit marks the lockout: the
 * next sign-in sends a mail.
 * @throws Problem rate_limited, overloaded
 */
export async function matchOwnPassword(
  context: Pick<Context, 'db' | 'system' | 'hasher' | 'counters' | 'config'>,
  session: Session,
  password: string,
  act: Act,
): Promise<string | null> {
  if (isTooLong(password)) return null
  const { db, hasher } = context
  const { companyId, userId, email } = session
  const { network: networkOrDevice, isKnown } = turnOf(act)
  const guesser = { companyId, userId, email, networkOrDevice, isKnown, now: act.now }
  const { result, ofPlace } = await countGuess(context, guesser, async () => {
    const [account] = await findAccountsByEmail(db, [{ companyId, email }])
    const hash = account?.passwordHash
    const matches = await hasher.inTurn(turnOf(act)).verify(hash, password)
    return matches && hash !== undefined ? hash : null
  })
  if (result !== null) return result
  const entry = entryOf(context, session, act, 'refused')
  if (ofPlace.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, email, entry)
  return null
}

/** The audit entry of the act. */
export function entryOf(
  { system }: Pick<Context, 'system'>,
  { userId: actor, sessionId }: Session,
  { action, client: { ipAddress }, now }: Act,
  outcome: 'done' | 'refused',
): AuditEntry {
  return newEntry(system, new Date(now), { action, actor, sessionId, ipAddress, outcome })
}
