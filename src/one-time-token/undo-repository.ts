import { sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { deleteTokensWhere } from './repository.ts'

/** Links to undo: a user can have several, each for a change of its own. */

export interface Undoable {
  companyId: string
  userId: string
  /** The former e-mail, which the member gets back. */
  email: string
  madeAt: Date
}

export interface FoundUndo extends Pick<Undoable, 'companyId' | 'userId'> {
  currentEmail: string
  requestNumber: string
}

export async function findUndoAcrossCompanies(
  db: Executor,
  hash: Buffer,
  now: Date,
): Promise<FoundUndo | undefined> {
  const { rows } = await sql<FoundUndo>`
    select t.company_id as "companyId", t.user_id as "userId", u.email as "currentEmail",
      t.request_number as "requestNumber"
    from one_time_tokens t
    join users u on u.company_id = t.company_id and u.user_id = t.user_id
    join companies c on c.company_id = t.company_id
    where t.token_hash = ${hash} and t.purpose = 'undo' and t.expires_at > ${now} and u.status <> 'deleted'
      and c.status <> 'deleting'`.execute(db)
  return rows[0]
}

/** Also deletes the member's later and other links. Earlier undos stay: their mailbox wins over this one. */
export async function consumeUndo(
  tx: Transaction<Database>,
  companyId: string,
  { userId, currentEmail, hash, now }: { userId: string; currentEmail: string; hash: Buffer; now: Date },
): Promise<Undoable | undefined> {
  const { rows } = await sql<Undoable>`
    with locked as (
      select * from one_time_tokens
      where company_id = ${companyId} and (user_id = ${userId} or email = ${currentEmail})
      order by token_hash for update
    ), consumed as (
      select * from locked where token_hash = ${hash} and purpose = 'undo' and expires_at > ${now}
    ), gone as (
      delete from one_time_tokens t using locked l, consumed c
      where t.company_id = l.company_id and t.token_hash = l.token_hash
        and (l.purpose <> 'undo' or (l.user_id = c.user_id and l.request_number >= c.request_number))
    )
    select company_id as "companyId", user_id as "userId", email, created_at as "madeAt" from consumed`.execute(
    tx,
  )
  return rows[0]
}

export async function deleteLaterUndos(
  tx: Transaction<Database>,
  companyId: string,
  { userId, requestNumber }: { userId: string; requestNumber: string },
): Promise<void> {
  const isLaterUndo = sql`user_id = ${userId} and purpose = 'undo' and request_number > ${requestNumber}`
  await deleteTokensWhere(tx, companyId, isLaterUndo)
}
