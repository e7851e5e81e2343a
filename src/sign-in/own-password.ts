import { type AuditEntry, newEntry } from '../audit/entry.ts'
import { findAccountsByEmail } from '../company/identity-repository.ts'
import { isTooLong } from '../crypto/password-policy.ts'
import type { Executor } from '../database/connect.ts'
import type { Client } from '../limits/client.ts'
import type { Counters } from '../limits/counters.ts'
import type { LimitedHasher } from '../limits/hashing.ts'
import type { Limit } from '../limits/list.ts'
import type { Session } from '../session/session.ts'
import type { System } from '../system.ts'
import { countGuess, recordWrongGuess } from './password-guesses.ts'

/** Whether a user with a session knows the password. Wrong guesses count together with those at sign-in. */

interface Context {
  db: Executor
  system: System
  hasher: LimitedHasher
  counters: Counters
  config: { limits: { signInFailures: Limit; accountFailures: Limit } }
}

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

/** Returns the hash that the password matches; null if it is wrong. @throws Problem rate_limited, overloaded */
export async function matchOwnPassword(
  context: Context,
  session: Session,
  password: string,
  act: Act,
): Promise<string | null> {
  if (isTooLong(password)) return null
  const { companyId, email } = session
  const turn = turnOf(act)
  const guesser = { companyId, email, now: act.now, networkOrDevice: turn.network, isKnown: turn.isKnown }
  const guess = await countGuess(context, guesser, async () => {
    const [account] = await findAccountsByEmail(context.db, [{ companyId, email }])
    const hash = account?.passwordHash
    const matches = await context.hasher.inTurn(turn).verify(hash, password)
    return matches && hash !== undefined ? hash : null
  })
  if (guess.result === null)
    await recordWrongGuess(context, guesser, guess, entryOf(context, session, act, 'refused'))
  return guess.result
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
