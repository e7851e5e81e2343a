import type { Actor } from '../acts.ts'
import { newEntry } from '../audit/entry.ts'
import { appendAudit } from '../audit/repository.ts'
import { findAccountsByEmail, noteLockout } from '../company/identity-repository.ts'
import type { Context } from '../context.ts'
import { isTooLong } from '../crypto/password-policy.ts'
import { countGuess } from './guesses.ts'


/** A user with a session is known, from every network. */
export function turnOf({ client }: Pick<Actor, 'client'>) {
  return { network: client.network, isKnown: true }
}

/** The hash that the password matches; null if it is wrong. @throws Problem rate_limited, overloaded */
export async function matchOwnPassword(
  context: Pick<Context, 'db' | 'system' | 'hasher' | 'counters' | 'config'>,
  actor: Actor,
  password: string,
  action: string,
): Promise<string | null> {
  if (isTooLong(password)) return null
  const { db, hasher, system } = context
  const { session, client, now } = actor
  const { companyId, userId, sessionId, email } = session
  const { network: networkOrDevice, isKnown } = turnOf(actor)
  const guesser = { companyId, userId, email, networkOrDevice, isKnown, now }
  const { result, ofPlace } = await countGuess(context, guesser, async () => {
    const [account] = await findAccountsByEmail(db, [{ companyId, email }])
    const hash = account?.passwordHash
    const matches = await hasher.inTurn(turnOf(actor)).verify(hash, password)
    return matches && hash !== undefined ? hash : null
  })
  if (result !== null) return result
  const about = { action, outcome: 'refused', actor: userId, sessionId, ipAddress: client.ipAddress }
  const entry = newEntry(system, new Date(now), about)
  if (ofPlace.remaining > 0) await appendAudit(db, companyId, entry)
  else await noteLockout(db, companyId, email, entry)
  return null
}
