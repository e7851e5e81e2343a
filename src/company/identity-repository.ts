import { type ExpressionBuilder, sql } from 'kysely'
import type { AuditEntry } from '../audit/entry.ts'
import { auditIfAny } from '../audit/fragments.ts'
import { inOrder } from '../database/batch.ts'
import { aliased } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { ACCOUNT_COLUMNS, type Account } from './account.ts'

/** Users as sign-in sees them: e-mail and password, proof of both, and too many wrong guesses. */

/** An account with what a sign-in checks. */
export interface Identity extends Account {
  passwordHash: string
  emailVerifiedAt: Date | null
  lockedOutAt: Date | null
}

const accountColumns = aliased('a', ACCOUNT_COLUMNS)

/** Finds accounts by e-mails in their stored form. One outcome an item, in order; null if there is none. */
export async function findAccountsByEmail(
  db: Executor,
  items: { companyId: string; email: string }[],
): Promise<(Identity | null)[]> {
  const { rows } = await sql<Identity & { ord: number }>`
    select i.ord::int, u.company_id as "companyId", u.user_id as "userId", ${accountColumns},
      u.password_hash as "passwordHash", u.email_verified_at as "emailVerifiedAt", u.locked_out_at as "lockedOutAt"
    from unnest(${items.map(({ companyId }) => companyId)}::uuid[], ${items.map(({ email }) => email)}::text[])
      with ordinality as i (company_id, email, ord)
    join users u on u.company_id = i.company_id and u.email = i.email
    join accounts a on a.company_id = u.company_id and a.user_id = u.user_id`.execute(db)
  return inOrder(items.length, rows)
}

function ofActiveCompany({ exists, selectFrom }: ExpressionBuilder<Database, 'users'>) {
  return exists(
    selectFrom('companies')
      .select('company_id')
      .whereRef('companies.company_id', '=', 'users.company_id')
      .where('companies.status', '=', 'active'),
  )
}

/** Replaces a hash that was read before; false if it has changed since, or user or company is not active. */
export async function replacePasswordHash(
  db: Executor,
  companyId: string,
  userId: string,
  change: { before: string; after: string },
): Promise<boolean> {
  const updated = await db
    .updateTable('users')
    .set({ password_hash: change.after })
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('password_hash', '=', change.before)
    .where('status', '=', 'active')
    .where(ofActiveCompany)
    .returning('user_id')
    .executeTakeFirst()
  return updated !== undefined
}

/**
 * Notes that mail to an e-mail reaches its user, and their new password if they chose one. Returns the user's id;
 * undefined unless user and company are active.
 */
export async function proveEmail(
  db: Executor,
  companyId: string,
  email: string,
  { at, passwordHash }: { at: Date; passwordHash?: string },
): Promise<string | undefined> {
  const updated = await db
    .updateTable('users')
    .set(({ fn, val }) => ({
      email_verified_at: fn.coalesce('email_verified_at', val(at)),
      ...(passwordHash !== undefined && { password_hash: passwordHash, locked_out_at: null }),
    }))
    .where('company_id', '=', companyId)
    .where('email', '=', email)
    .where('status', '=', 'active')
    .where(ofActiveCompany)
    .returning('user_id')
    .executeTakeFirst()
  return updated?.user_id
}

/**
 * Notes that the password of this e-mail was guessed until no more guesses were taken, with the audit entry of
 * the last guess. One statement and one commit, whether or not it is the e-mail of a user.
 */
export async function noteLockout(
  db: Executor,
  companyId: string,
  email: string,
  audit: AuditEntry,
): Promise<void> {
  await sql`
    with noted as (
      update users set locked_out_at = ${audit.occurredAt} where company_id = ${companyId} and email = ${email}
    ), guess as (select 1), audited as (${auditIfAny('guess', companyId, audit)})
    select`.execute(db)
}

/** Forgets that for the user who signs in with that password; true for the one of several that did. */
export async function clearLockout(
  db: Executor,
  companyId: string,
  userId: string,
  passwordHash: string,
): Promise<boolean> {
  const cleared = await db
    .updateTable('users')
    .set({ locked_out_at: null })
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('locked_out_at', 'is not', null)
    .where('password_hash', '=', passwordHash)
    .where('status', '=', 'active')
    .returning('user_id')
    .executeTakeFirst()
  return cleared !== undefined
}
