import { type RawBuilder, sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import type { TokenPurpose } from '../database/schema.ts'
import { deleteUnsentResets, lockUnsent } from '../mail/repository.ts'

/** Deleting the row consumes a token, so only one of several requests succeeds. Only its hash is stored. */

export interface NewToken {
  purpose: TokenPurpose
  email: string
  hash: Buffer
  role: string | null
  /** The user whose email it changes or whose account it restores; null for other purposes. */
  userId: string | null
  isFactorProven: boolean
  mailId: string
  createdAt: Date
  expiresAt: Date
}

/** A user can have several links to undo, each for a different change. */
const isForTheSame = (other: RawBuilder<unknown>, token: RawBuilder<unknown>) => sql`(
  ${other}.company_id = ${token}.company_id
  and ${other}.purpose = ${token}.purpose and ${other}.purpose <> 'undo'
  and ${other}.email = ${token}.email and ${other}.user_id is not distinct from ${token}.user_id
)`

/** By the database's count, or by the instance's clock for rows that predate the count. */
const isLater = (other: RawBuilder<unknown>, token: RawBuilder<unknown>) => sql`coalesce(
  ${other}.request_number > ${token}.request_number, ${other}.created_at > ${token}.created_at
)`

/** A mail server has accepted the email of a later token than `t`. */
const isReplaced = sql<boolean>`exists (
  select from one_time_tokens n where ${isForTheSame(sql`n`, sql`t`)} and n.is_sent and ${isLater(sql`n`, sql`t`)}
)`

/** False if replaced, or its email is gone. Locks the email: a transaction that deletes it sees the token. */
export async function insertToken(
  db: Executor,
  companyId: string,
  { purpose, email, hash, role, userId, isFactorProven, mailId, createdAt, expiresAt }: NewToken,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with mail as (${lockUnsent(companyId, mailId)}), t as (
      select ${companyId}::uuid as company_id, ${purpose}::text as purpose, ${email}::text as email,
        ${userId}::uuid as user_id, ${createdAt}::timestamptz as created_at, request_number from mail
    )
    insert into one_time_tokens (company_id, purpose, email, token_hash, role, user_id, is_factor_proven, created_at,
      expires_at, request_number)
    select company_id, purpose, email, ${hash}::bytea, ${role}, user_id, ${isFactorProven}, created_at,
      ${expiresAt}, request_number
    from t where not exists (
      select from one_time_tokens n where ${isForTheSame(sql`n`, sql`t`)} and ${isLater(sql`n`, sql`t`)}
    )`.execute(db)
  return numAffectedRows === 1n
}

/** Deletes tokens of earlier requests and attempts (see `isReplaced`). */
export async function noteSent(
  db: Executor,
  companyId: string,
  { purpose, email, hash }: Pick<NewToken, 'purpose' | 'email' | 'hash'>,
): Promise<void> {
  await sql`
    with locked as (
      select * from one_time_tokens
      where company_id = ${companyId} and purpose = ${purpose} and email = ${email}
      order by token_hash for update
    ), sent as (
      update one_time_tokens t set is_sent = true from locked l
      where t.company_id = l.company_id and t.token_hash = l.token_hash and l.token_hash = ${hash}
      returning t.*
    )
    delete from one_time_tokens t using locked l, sent s
    where t.company_id = l.company_id and t.token_hash = l.token_hash and l.token_hash <> s.token_hash
      and ${isForTheSame(sql`l`, sql`s`)} and not ${isLater(sql`l`, sql`s`)}`.execute(db)
}

/** For a link that is not emailed. A link that is emailed later replaces it. */
export async function insertPrintedReset(
  tx: Tx,
  companyId: string,
  { email, hash, createdAt, expiresAt }: Pick<NewToken, 'email' | 'hash' | 'createdAt' | 'expiresAt'>,
): Promise<void> {
  const token = { purpose: 'reset', email, token_hash: hash, is_sent: true } as const
  await tx
    .insertInto('one_time_tokens')
    .values({ ...token, company_id: companyId, created_at: createdAt, expires_at: expiresAt })
    .execute()
}

export async function findTokenAcrossCompanies(db: Executor, purpose: TokenPurpose, hash: Buffer, now: Date) {
  return await db
    .selectFrom('one_time_tokens as t')
    .innerJoin('companies as c', 'c.company_id', 't.company_id')
    .select(['t.company_id as companyId', 't.email', 't.user_id as userId', 't.expires_at as expiresAt'])
    .select(['c.name as companyName', 'c.handle as companyHandle'])
    .where('t.token_hash', '=', hash)
    .where('t.purpose', '=', purpose)
    .where('t.expires_at', '>', now)
    .where('c.status', '=', 'active')
    .where(({ not }) => not(isReplaced))
    .executeTakeFirst()
}

export interface ConsumedToken {
  companyId: string
  email: string
  userId: string | null
  isFactorProven: boolean
}

/** Deletes all tokens of its purpose and email. Concurrent requests wait for the locks, then find no row. */
export async function consumeTokenAcrossCompanies(tx: Tx, purpose: TokenPurpose, hash: Buffer, now: Date) {
  const { rows } = await sql<ConsumedToken>`
    with locked as (
      select t.* from one_time_tokens sent
      left join users u on u.company_id = sent.company_id and u.user_id = sent.user_id
      join one_time_tokens t on t.company_id = sent.company_id
        and ((t.purpose = sent.purpose and t.email = sent.email) or t.email = u.email)
      where sent.token_hash = ${hash} and sent.purpose = ${purpose}
      order by t.token_hash
      for update of t
    ), consumed as (
      select t.company_id, t.purpose, t.email, t.user_id, t.is_factor_proven
      from locked t join companies c on c.company_id = t.company_id
      where t.token_hash = ${hash} and t.expires_at > ${now} and c.status = 'active' and not ${isReplaced}
    ), gone as (
      delete from one_time_tokens t using consumed c
      where t.company_id = c.company_id and t.purpose = c.purpose and t.email = c.email
    )
    select company_id as "companyId", email, user_id as "userId", is_factor_proven as "isFactorProven"
    from consumed`.execute(tx)
  return rows[0]
}

export async function deleteUnsentResetsAcrossCompanies(tx: Tx, hash: Buffer): Promise<void> {
  const accounts = sql`select company_id, email from one_time_tokens where token_hash = ${hash} and purpose = 'reset'`
  await deleteUnsentResets(accounts).execute(tx)
}

export async function deleteUnsentResetsTo(tx: Tx, companyId: string, email: string): Promise<void> {
  await deleteUnsentResets(sql`select ${companyId}::uuid as company_id, ${email}::text as email`).execute(tx)
}

export async function deleteResetTokens(tx: Tx, companyId: string, email: string): Promise<void> {
  // Emails first: this waits for tokens that are being inserted for them. The next statement sees those.
  await deleteUnsentResetsTo(tx, companyId, email)
  await deleteTokensWhere(tx, companyId, sql`purpose = 'reset' and email = ${email}`)
}

/** Links to undo stay. Queued emails find no user and are not sent. Locking them would break the lock order. */
export async function deleteLinksTo(tx: Tx, companyId: string, email: string): Promise<void> {
  await deleteTokensWhere(tx, companyId, sql`email = ${email} and purpose <> 'undo'`)
}

export async function deleteInvitationTokens(tx: Tx, companyId: string, email: string): Promise<void> {
  await deleteTokensWhere(tx, companyId, sql`purpose = 'invite' and email = ${email}`)
}

export async function deleteConfirmTokens(tx: Tx, companyId: string, userId: string): Promise<void> {
  await deleteTokensWhere(tx, companyId, sql`purpose = 'confirm' and user_id = ${userId}`)
}

/** Includes tokens sent to the member's previous emails, but not tokens of a different member who had this email. */
export async function deleteTokensOf(
  tx: Tx,
  companyId: string,
  { userId, email }: { userId: string; email: string },
): Promise<void> {
  await deleteTokensWhere(tx, companyId, sql`coalesce(user_id = ${userId}, email = ${email})`)
}

/** Locks in the same order as all requests. */
async function deleteTokensWhere(db: Executor, companyId: string, condition: RawBuilder<unknown>) {
  await sql`
    with locked as (
      select token_hash from one_time_tokens where company_id = ${companyId} and ${condition}
      order by token_hash for update
    )
    delete from one_time_tokens t using locked l
    where t.company_id = ${companyId} and t.token_hash = l.token_hash`.execute(db)
}

export async function findUndoAcrossCompanies(db: Executor, hash: Buffer, now: Date) {
  return await db
    .selectFrom('one_time_tokens as t')
    .innerJoin('users as u', (join) =>
      join.onRef('u.company_id', '=', 't.company_id').onRef('u.user_id', '=', 't.user_id'),
    )
    .innerJoin('companies as c', 'c.company_id', 't.company_id')
    .select(['t.company_id as companyId', 'u.user_id as userId'])
    .select(['u.email as currentEmail', 't.request_number as requestNumber'])
    .where('t.token_hash', '=', hash)
    .where('t.purpose', '=', 'undo')
    .where('t.expires_at', '>', now)
    .where('u.status', '!=', 'deleted')
    .where('c.status', '!=', 'deleting')
    .$narrowType<{ currentEmail: string; requestNumber: string }>()
    .executeTakeFirst()
}

/** Deletes the member's other links and later undos too. Earlier undos stay, because their mailbox wins. */
export async function consumeUndo(
  tx: Tx,
  companyId: string,
  { userId, currentEmail, hash, now }: { userId: string; currentEmail: string; hash: Buffer; now: Date },
): Promise<{ email: string; madeAt: Date } | undefined> {
  const { rows } = await sql<{ email: string; madeAt: Date }>`
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
    select email, created_at as "madeAt" from consumed`.execute(tx)
  return rows[0]
}

export async function deleteLaterUndos(
  tx: Tx,
  companyId: string,
  { userId, requestNumber }: { userId: string; requestNumber: string },
): Promise<void> {
  const isLaterUndo = sql`user_id = ${userId} and purpose = 'undo' and request_number > ${requestNumber}`
  await deleteTokensWhere(tx, companyId, isLaterUndo)
}
