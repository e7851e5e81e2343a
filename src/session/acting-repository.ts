import { sql, type Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'
import { hasEnded } from './session-fragments.ts'

/** Who acts: a user, by a session. */
export interface ActorIds {
  userId: string
  sessionId: string
}

/**
 * Holds the session of somebody who acts until the transaction ends; false if it has ended. The user is locked before, by a
 * statement of its own: so an end that this transaction has waited for is seen, and any other waits for this one.
 */
export async function holdSession(
  tx: Transaction<Database>,
  companyId: string,
  { userId, sessionId }: ActorIds,
  now: Date,
): Promise<boolean> {
  const { rows } = await sql`
    select s.session_id from sessions s
    join accounts a on a.company_id = s.company_id and a.user_id = s.user_id
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.user_id = ${userId}
      and not ${hasEnded('s', 'a', sql`${now}::timestamptz`)}
    for share of s`.execute(tx)
  return rows.length > 0
}
