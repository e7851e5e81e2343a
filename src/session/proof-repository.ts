import { sql } from 'kysely'
import type { Executor, Transaction } from '../database/connect.ts'
import { hasEnded, isNotEnded } from './session-fragments.ts'

/**
 * Gives a live session another cookie, and stores that its user has proven who they are. False if the session has ended,
 * or has another cookie than `before`. Hashes of cookies.
 */
export async function proveByCookie(
  db: Executor,
  companyId: string,
  sessionId: string,
  { before, after, at, amr }: { before: Buffer | null; after: Buffer | null; at: Date; amr: string[] },
): Promise<boolean> {
  const { rows } = await sql`
    update sessions s set cookie_hash = ${after}::bytea, auth_time = ${at}, amr = ${amr}::text[]
    from accounts a
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and s.cookie_hash = ${before}::bytea
      and a.company_id = s.company_id and a.user_id = s.user_id
      and not ${hasEnded('s', 'a', sql`${at}::timestamptz`)}
    returning s.session_id`.execute(db)
  return rows.length > 0
}

/** Stores by which methods a live session was proven; the time stays. */
export async function storeMethods(
  tx: Transaction,
  companyId: string,
  sessionId: string,
  amr: string[],
): Promise<void> {
  await sql`
    update sessions s set amr = ${amr}::text[]
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and ${isNotEnded('s')}`.execute(tx)
}

/** Takes the second factor from what a live session has proven: its user has none any more. */
export async function withdrawSecondFactor(
  tx: Transaction,
  companyId: string,
  sessionId: string,
): Promise<void> {
  await sql`
    update sessions s set amr = array_remove(s.amr, 'mfa')
    where s.company_id = ${companyId} and s.session_id = ${sessionId} and ${isNotEnded('s')}`.execute(tx)
}
