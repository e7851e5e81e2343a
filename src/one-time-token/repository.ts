import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database, TokenPurpose } from '../database/schema.ts'
import { deleteUnsentResets, lockUnsent } from '../mail/fragments.ts'

/**
 * One-time tokens. Deleting the row consumes the token, so one of several concurrent requests succeeds; the
 * effect is in the same transaction. A token does not name its company, so it is found by its hash.
 */

interface NewToken {
  purpose: TokenPurpose
  email: string
  hash: Buffer
  role: string | null
  /** Whose e-mail it changes; null for other purposes. */
  userId: string | null
  /** The mail that brings it. */
  mailId: string
  /** The time of the request, not of the sending. */
  createdAt: Date
  expiresAt: Date
}

/**
 * Adds a token; false if a token of a later request exists for the same purpose and e-mail, or its
 * mail is gone. The mail stays locked until the token is visible, so what deletes the mail also finds the token.
 */
export async function insertToken(
  db: Executor,
  companyId: string,
  { purpose, email, hash, role, userId, mailId, createdAt, expiresAt }: NewToken,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    with mail as (${lockUnsent(companyId, mailId)})
    insert into one_time_tokens (company_id, purpose, email, token_hash, role, user_id, created_at, expires_at)
    select ${companyId}, ${purpose}, ${email}, ${hash}::bytea, ${role}, ${userId}, ${createdAt}, ${expiresAt}
    from mail where not exists (
      select from one_time_tokens
      where company_id = ${companyId} and purpose = ${purpose} and email = ${email} and created_at > ${createdAt}
    )`.execute(db)
  return numAffectedRows === 1n
}

/** Deletes the tokens of earlier requests for the same purpose and e-mail. */
export async function deleteOlderTokens(
  db: Executor,
  companyId: string,
  { purpose, email, createdAt }: NewToken,
): Promise<void> {
  const isOlder = sql`purpose = ${purpose} and email = ${email} and created_at < ${createdAt}`
  await deleteTokensWhere(db, companyId, isOlder)
}

/** A valid token. `userId` is null unless it changes that user's e-mail. */
export interface ConsumedToken {
  companyId: string
  email: string
  userId: string | null
}

export interface FoundToken extends ConsumedToken {
  companyName: string
  expiresAt: Date
}

/** Finds a valid token without consuming it. */
export async function findTokenAcrossCompanies(
  db: Executor,
  purpose: TokenPurpose,
  hash: Buffer,
  now: Date,
): Promise<FoundToken | undefined> {
  const { rows } = await sql<FoundToken>`
    select t.company_id as "companyId", t.email, t.user_id as "userId", t.expires_at as "expiresAt", c.name as "companyName"
    from one_time_tokens t join companies c on c.company_id = t.company_id
    where t.token_hash = ${hash} and t.purpose = ${purpose} and t.expires_at > ${now} and c.status = 'active'`.execute(
    db,
  )
  return rows[0]
}

/**
 * Consumes a token and all others of its purpose and e-mail; undefined if it is not valid. Locks all of them
 * in one order: a second request with any of them waits and then finds no row.
 */
export async function consumeTokenAcrossCompanies(
  tx: Transaction<Database>,
  purpose: TokenPurpose,
  hash: Buffer,
  now: Date,
): Promise<ConsumedToken | undefined> {
  const { rows } = await sql<ConsumedToken>`
    with locked as (
      select t.* from one_time_tokens sent
      join one_time_tokens t
        on t.company_id = sent.company_id and t.purpose = sent.purpose and t.email = sent.email
      where sent.token_hash = ${hash} and sent.purpose = ${purpose}
      order by t.token_hash
      for update of t
    ), consumed as (
      select t.company_id, t.purpose, t.email, t.user_id
      from locked t join companies c on c.company_id = t.company_id
      where t.token_hash = ${hash} and t.expires_at > ${now} and c.status = 'active'
    ), gone as (
      delete from one_time_tokens t using consumed c
      where t.company_id = c.company_id and t.purpose = c.purpose and t.email = c.email
    )
    select company_id as "companyId", email, user_id as "userId" from consumed`.execute(tx)
  return rows[0]
}

/** Deletes the resets whose mail still waits, or is being sent, to the e-mail of a reset token. */
export async function deleteUnsentResetsAcrossCompanies(
  tx: Transaction<Database>,
  hash: Buffer,
): Promise<void> {
  const accounts = sql`select company_id, email from one_time_tokens where token_hash = ${hash} and purpose = 'reset'`
  await deleteUnsentResets(accounts).execute(tx)
}

/** Deletes all resets of an e-mail that were requested before, whether or not their mail was sent. */
export async function deleteResetTokens(
  tx: Transaction<Database>,
  companyId: string,
  email: string,
): Promise<void> {
  // First the mails: this waits for a token that is being inserted for one of them, and the next statement sees it.
  await deleteUnsentResets(sql`select ${companyId}::uuid as company_id, ${email}::text as email`).execute(tx)
  await deleteTokensWhere(tx, companyId, sql`purpose = 'reset' and email = ${email}`)
}

/** Makes void what was mailed to an e-mail that its user no longer has: links, and mails with links that wait. */
export async function deleteLinksTo(
  tx: Transaction<Database>,
  companyId: string,
  email: string,
): Promise<void> {
  await deleteResetTokens(tx, companyId, email)
  await deleteTokensOf(tx, companyId, email)
}

/** Deletes the tokens of invitations to an e-mail. */
export async function deleteInvitationTokens(
  tx: Transaction<Database>,
  companyId: string,
  email: string,
): Promise<void> {
  await deleteTokensWhere(tx, companyId, sql`purpose = 'invite' and email = ${email}`)
}

/** Deletes all tokens of an e-mail. */
export async function deleteTokensOf(
  tx: Transaction<Database>,
  companyId: string,
  email: string,
): Promise<void> {
  await deleteTokensWhere(tx, companyId, sql`email = ${email}`)
}

/**
 * Deletes the tokens of a company that fulfil the condition, at most `max`, and returns how many. Locks them in the
 * order in which all requests lock them.
 */
export async function deleteTokensWhere(
  db: Executor,
  companyId: string,
  condition: RawBuilder<unknown>,
  max?: number,
): Promise<number> {
  const limit = max === undefined ? sql`` : sql`limit ${max}`
  const { numAffectedRows = 0n } = await sql`
    with locked as (
      select token_hash from one_time_tokens where company_id = ${companyId} and ${condition}
      order by token_hash ${limit} for update
    )
    delete from one_time_tokens t using locked l
    where t.company_id = ${companyId} and t.token_hash = l.token_hash`.execute(db)
  return Number(numAffectedRows)
}
