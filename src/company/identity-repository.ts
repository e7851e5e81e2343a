import { type ExpressionBuilder, sql } from 'kysely'
import type { AuditEntry } from '../audit/entry.ts'
import { auditIfAny } from '../audit/fragments.ts'
import { inOrder } from '../database/batch.ts'
import { aliased, itemTable } from '../database/columns.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { ACCOUNT_COLUMNS, type Account } from './account.ts'
import { updatingUser } from './repository.ts'

/** The columns of users that sign-in needs: password hash, email verification, lockout. */

type EmailItem = Pick<Account, 'companyId' | 'email'>

const emailTable = itemTable<EmailItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  email: ['text', ({ email }) => email],
})

/** One outcome per item, in order. */
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

/** False if the stored hash is not `before`, or the user or company is not active. */
export async function replacePasswordHash(
  db: Executor,
  companyId: string,
  userId: string,
  change: { before: string; after: string },
): Promise<boolean> {
  const { numUpdatedRows } = await updatingUser(db, companyId, userId)
    .set({ password_hash: change.after, wrong_codes: 0 })
    .where('password_hash', '=', change.before)
    .where('status', '=', 'active')
    .where(ofActiveCompany)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Undefined unless user and company are active. `isFirst`: the email was not verified before. */
export async function proveEmail(
  db: Executor,
  companyId: string,
  email: string,
  { at, passwordHash }: { at: Date; passwordHash?: string },
) {
  return await db
    .updateTable('users')
    .set(({ fn, val }) => ({
      email_verified_at: fn.coalesce('email_verified_at', val(at)),
      ...(passwordHash !== undefined && {
        password_hash: passwordHash,
        locked_out_at: null,
        pending_email: null,
        wrong_codes: 0,
      }),
    }))
    .where((eb) => eb.and({ company_id: companyId, email, status: 'active' }))
    .where(ofActiveCompany)
    .returning((eb) => ['user_id as userId', eb('email_verified_at', '=', at).as('isFirst')])
    .executeTakeFirst()
}

export async function findPendingEmail(db: Executor, companyId: string, userId: string) {
  return await db
    .selectFrom('users as u')
    .innerJoin('companies as c', 'c.company_id', 'u.company_id')
    .select(['u.name', 'u.email', 'u.status as userStatus', 'u.pending_email as pendingEmail'])
    .select(['c.name as companyName', 'c.handle as companyHandle', 'c.status as companyStatus'])
    .where('u.company_id', '=', companyId)
    .where('u.user_id', '=', userId)
    .executeTakeFirst()
}

/** False if a newer request replaced it, or the user or company is not active. Throws if the email is taken. */
export async function takePendingEmail(
  tx: Tx,
  companyId: string,
  userId: string,
  { email, at }: { email: string; at: Date },
): Promise<boolean> {
  const { numUpdatedRows } = await updatingUser(tx, companyId, userId)
    .set({ email, pending_email: null, email_verified_at: at })
    .where('pending_email', '=', email)
    .where('status', '=', 'active')
    .where(ofActiveCompany)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Returns the previous email. Removes a requested email and the password too. Throws if `email` is taken. */
export async function restoreEmail(tx: Tx, companyId: string, userId: string, email: string) {
  const { rows } = await sql<{ former: string }>`
    with former as (
      select u.user_id, u.email from users u join companies c on c.company_id = u.company_id
      where u.company_id = ${companyId} and u.user_id = ${userId} and u.status <> 'deleted'
        and c.status <> 'deleting'
      for no key update of u
    )
    update users u set email = ${email}, pending_email = null, password_hash = '', locked_out_at = null
    from former f where u.company_id = ${companyId} and u.user_id = f.user_id
    returning f.email as former`.execute(tx)
  return rows[0]?.former
}

const MAX_COMPANIES = 50

export async function listCompaniesOfEmailAcrossCompanies(db: Executor, email: string) {
  return await db
    .selectFrom('users as u')
    .innerJoin('companies as c', 'c.company_id', 'u.company_id')
    .select(['c.company_id as id', 'c.handle', 'c.name'])
    .where('u.email', '=', email)
    .where('u.email_verified_at', 'is not', null)
    .where((eb) => eb.and({ 'u.status': 'active', 'u.kind': 'person', 'c.status': 'active' }))
    .orderBy('c.name')
    .limit(MAX_COMPANIES)
    .execute()
}

/** False if no change is pending. */
export async function cancelEmailChange(db: Executor, companyId: string, userId: string): Promise<boolean> {
  const { numUpdatedRows } = await updatingUser(db, companyId, userId)
    .set({ pending_email: null })
    .where('pending_email', 'is not', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export async function findPasswordHash(db: Executor, companyId: string, userId: string) {
  const user = await db
    .selectFrom('users')
    .select('password_hash as passwordHash')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return user?.passwordHash
}

export async function noteLockout(db: Executor, companyId: string, userId: string, audit: AuditEntry) {
  await sql`
    with noted as (
      update users set locked_out_at = ${audit.occurredAt} where company_id = ${companyId} and user_id = ${userId}
    ), guess as (select 1), audited as (${auditIfAny('guess', companyId, audit)})
    select`.execute(db)
}

/** True for only one of several concurrent sign-ins with this password. */
export async function clearLockout(db: Executor, companyId: string, userId: string, passwordHash: string) {
  const { numUpdatedRows } = await updatingUser(db, companyId, userId)
    .set({ locked_out_at: null })
    .where('locked_out_at', 'is not', null)
    .where('password_hash', '=', passwordHash)
    .where('status', '=', 'active')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Removes the password after `wrongCodes` wrong codes. False if there were fewer. */
export async function clearGuessedPassword(tx: Tx, companyId: string, userId: string, wrongCodes: number) {
  const { numUpdatedRows } = await updatingUser(tx, companyId, userId)
    .set({ password_hash: '', wrong_codes: 0 })
    .where('wrong_codes', '>=', wrongCodes)
    .where('status', '!=', 'deleted')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

/** Returns the number of wrong codes in a row. */
export async function countWrongCode(db: Executor, companyId: string, userId: string): Promise<number> {
  const user = await updatingUser(db, companyId, userId)
    .set((eb) => ({ wrong_codes: eb('wrong_codes', '+', 1) }))
    .returning('wrong_codes as count')
    .executeTakeFirst()
  return user?.count ?? 0
}

/** Returns the user's email. */
export async function forgetWrongCodes(tx: Tx, companyId: string, userId: string): Promise<string> {
  const user = await updatingUser(tx, companyId, userId)
    .set({ wrong_codes: 0 })
    .returning('email')
    .executeTakeFirst()
  return user?.email ?? ''
}

export interface Identity extends Account {
  passwordHash: string
  emailVerifiedAt: Date | null
  lockedOutAt: Date | null
}

export const identityColumns = sql`u.company_id as "companyId", u.user_id as "userId",
  ${aliased('a', ACCOUNT_COLUMNS)}, u.password_hash as "passwordHash", u.email_verified_at as "emailVerifiedAt",
  u.locked_out_at as "lockedOutAt"`

/** Joins users `u` and accounts `a` to `i`, which has the columns company_id and email. */
export const identities = sql`
  -- At most one. The limit makes the planner start from the email, instead of reading all users of the company.
  cross join lateral (select * from users u where u.company_id = i.company_id and u.email = i.email limit 1) u
  join accounts a on a.company_id = u.company_id and a.user_id = u.user_id`
