import { type ExpressionBuilder, sql, type Transaction } from 'kysely'
import { type AuditEntry, auditIfAny } from '../database/audit.ts'
import { inOrder } from '../database/batch.ts'
import type { Executor } from '../database/connect.ts'
import type {
  AccountRow,
  CompanyStatus,
  Database,
  SubscriptionStatus,
  UserStatus,
} from '../database/schema.ts'

/** Companies, their subscriptions and users: every function takes the company before anything else. */

export interface NewUser {
  userId: string
  email: string
  name: string
  role: string
  passwordHash: string
  emailVerifiedAt: Date | null
  createdAt: Date
}

/** Inserts a company with its subscription; false if the id exists. */
export async function insertCompany(
  tx: Transaction<Database>,
  companyId: string,
  company: {
    name: string
    createdAt: Date
    plan: string
    status: SubscriptionStatus
    currentPeriodEnd: Date
  },
): Promise<boolean> {
  const inserted = await tx
    .insertInto('companies')
    .values({ company_id: companyId, name: company.name, status: 'active', created_at: company.createdAt })
    .onConflict((conflict) => conflict.column('company_id').doNothing())
    .returning('company_id')
    .executeTakeFirst()
  if (!inserted) return false
  await tx
    .insertInto('subscriptions')
    .values({
      company_id: companyId,
      plan: company.plan,
      status: company.status,
      current_period_end: company.currentPeriodEnd,
    })
    .execute()
  return true
}

/** Inserts a user; false if the company has one with that address. */
export async function insertUser(db: Executor, companyId: string, user: NewUser): Promise<boolean> {
  const inserted = await db
    .insertInto('users')
    .values({
      company_id: companyId,
      user_id: user.userId,
      email: user.email,
      name: user.name,
      role: user.role,
      assignments: ['environment:production'],
      status: 'active',
      password_hash: user.passwordHash,
      email_verified_at: user.emailVerifiedAt,
      created_at: user.createdAt,
    })
    .onConflict((conflict) => conflict.columns(['company_id', 'email']).doNothing())
    .returning('user_id')
    .executeTakeFirst()
  return inserted !== undefined
}

export async function findCompanyName(db: Executor, companyId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('companies')
    .select('name')
    .where('company_id', '=', companyId)
    .executeTakeFirst()
  return row?.name
}

export async function findActiveCompanyName(db: Executor, companyId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('companies')
    .select('name')
    .where('company_id', '=', companyId)
    .where('status', '=', 'active')
    .executeTakeFirst()
  return row?.name
}

export async function roleExists(db: Executor, role: string): Promise<boolean> {
  const row = await db.selectFrom('roles').select('role').where('role', '=', role).executeTakeFirst()
  return row !== undefined
}

function ofActiveCompany({ exists, selectFrom }: ExpressionBuilder<Database, 'users'>) {
  return exists(
    selectFrom('companies')
      .select('company_id')
      .whereRef('companies.company_id', '=', 'users.company_id')
      .where('companies.status', '=', 'active'),
  )
}

/** The account and what a sign-in checks; null if there is none. */
export type FoundAccount =
  | (AccountRow & { password_hash: string; email_verified_at: Date | null; locked_out_at: Date | null })
  | null

/** Finds accounts by their addresses in the form that these are stored in, one outcome an item, in order. */
export async function findAccountsByEmail(
  db: Executor,
  items: { companyId: string; email: string }[],
): Promise<FoundAccount[]> {
  const { rows } = await sql<NonNullable<FoundAccount> & { ord: number }>`
    select i.ord::int, a.*, u.password_hash, u.email_verified_at, u.locked_out_at
    from unnest(${items.map(({ companyId }) => companyId)}::uuid[], ${items.map(({ email }) => email)}::text[])
      with ordinality as i (company_id, email, ord)
    join users u on u.company_id = i.company_id and u.email = i.email
    join accounts a on a.company_id = u.company_id and a.user_id = u.user_id`.execute(db)
  return inOrder(items.length, rows)
}

/** Replaces a hash that was read before, unless it has changed since, or user or company is not active. */
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
 * Notes that an address is a user's, who has shown that its mail reaches them, and their new password if
 * they chose one; undefined unless user and company are active.
 */
export async function proveAddress(
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
 * Notes that somebody has guessed the password of this address until no more guesses were taken, with the
 * audit entry of the last guess: one statement and one commit, whether or not it is a user's address.
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

/** Forgets that for who signs in with that password; true for the one who did. */
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

/** False if there is no such company. */
export async function setCompanyStatus(
  db: Executor,
  companyId: string,
  status: CompanyStatus,
): Promise<boolean> {
  const updated = await db
    .updateTable('companies')
    .set({ status })
    .where('company_id', '=', companyId)
    .returning('company_id')
    .executeTakeFirst()
  return updated !== undefined
}

/** The user's id, or undefined if the company has no user with that id or address. */
export async function setUserStatus(
  db: Executor,
  companyId: string,
  user: { userId: string } | { email: string },
  status: UserStatus,
): Promise<string | undefined> {
  const updated = await db
    .updateTable('users')
    .set({ status })
    .where('company_id', '=', companyId)
    .where((where) =>
      'userId' in user ? where('user_id', '=', user.userId) : where('email', '=', user.email),
    )
    .returning('user_id')
    .executeTakeFirst()
  return updated?.user_id
}

/** False if there is no such company. */
export async function setSubscription(
  db: Executor,
  companyId: string,
  change: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<boolean> {
  const updated = await db
    .updateTable('subscriptions')
    .set({ status: change.status, ...(change.plan !== undefined && { plan: change.plan }) })
    .where('company_id', '=', companyId)
    .returning('company_id')
    .executeTakeFirst()
  return updated !== undefined
}
