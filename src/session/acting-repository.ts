import { sql } from 'kysely'
import type { Transaction } from '../database/connect.ts'
import { hasEnded } from './session-fragments.ts'

/** Who acts: a user, by a session. */
interface ActorIds {
  userId: string
  sessionId: string
}

/**
 * Holds the session of somebody who acts until the transaction ends, and returns what its user may do at this moment; null if
 * it has ended. What the transaction has to wait for comes before, in statements of their own: then an end or a change that
 * came meanwhile is seen.
 */
export async function holdSession(
  tx: Transaction,
  companyId: string,
  { userId, sessionId }: ActorIds,
  now: Date,
): Promise<string[] | null> {
  const { rows } = await sql<{ permissions: string[] }>`
    select a.permissions from sessions s
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.user_id = ${userId}
      and not ${hasEnded('s', 'a', sql`${now}::timestamptz`)}
    for share of s`.execute(tx)
  return rows[0]?.permissions ?? null
}
