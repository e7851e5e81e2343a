import { type ExpressionBuilder, sql } from 'kysely'
import type { AuditEntry } from '../audit/entry.ts'
import { auditIfAny } from '../audit/fragments.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { type Identity, identities, identityColumns } from './identity-fragments.ts'

/** The columns of users that sign-in needs: password hash, verification of the e-mail, lockout. */

interface EmailItem {
  companyId: string
  email: string
}

const emailTable = itemTable<EmailItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  email: ['text', ({ email }) => email],
})

/** Finds accounts by e-mails in their stored form. One outcome per item, in order; null if there is none. */
export async function findAccountsByEmail(db: Executor, items: EmailItem[]): Promise<(Identity | null)[]> {
  const { rows } = await sql<Identity & { ord: number }>`
    select i.ord::int, ${identityColumns}
    from ${emailTable(items)} ${identities}`.execute(db)
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

/** Replaces the hash `before`; false if the stored hash differs, or user or company is not active. */
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
 * Marks an e-mail as verified, and stores the new password hash, if given. Returns the user's id; undefined
 * unless user and company are active.
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

/** Marks the user as locked out and appends the audit entry of the last guess. */
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

/** Clears the lockout of a user who signs in with that password; true for one of several concurrent calls. */
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
