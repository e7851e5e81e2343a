import { type Selectable, sql, type Updateable } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import type { CompanyStatus, Database, SubscriptionStatus, UserKind } from '../database/schema.ts'
import { DEFAULT_ASSIGNMENTS } from './account.ts'

/** Companies, subscriptions and users. The statements of sign-in are in identity-repository.ts. */

export interface NewUser {
  userId: string
  kind?: UserKind | undefined
  /** Default: production. */
  assignments?: string[] | undefined
  email: string
  name: string
  role: string
  passwordHash: string
  /** Null: the user cannot sign in before verification. */
  emailVerifiedAt: Date | null
  createdAt: Date
  /** The member whose invitation was accepted. */
  invitedBy?: string | null | undefined
}

/** False if the id already exists. */
export async function insertCompany(
  tx: Tx,
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

/** In which names are searched: accents and case aside. */
export function searchFormOf(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
}

/** False if the company already has a user with that e-mail. */
export async function insertUser(db: Executor, companyId: string, user: NewUser): Promise<boolean> {
  const inserted = await db
    .insertInto('users')
    .values({
      company_id: companyId,
      user_id: user.userId,
      email: user.email,
      name: user.name,
      search_name: searchFormOf(user.name),
      role: user.role,
      assignments: user.assignments ?? DEFAULT_ASSIGNMENTS,
      kind: user.kind ?? 'person',
      status: 'active',
      password_hash: user.passwordHash,
      email_verified_at: user.emailVerifiedAt,
      created_at: user.createdAt,
      invited_by: user.invitedBy ?? null,
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
    .where('status', '!=', 'deleting')
    .executeTakeFirst()
  return row?.name
}

/** Undefined if the company is suspended or being deleted. */
export async function findActiveCompany(db: Executor, companyId: string) {
  return await db
    .selectFrom('companies')
    .select(['name as companyName', 'handle as companyHandle'])
    .where('company_id', '=', companyId)
    .where('status', '=', 'active')
    .executeTakeFirst()
}

export async function roleExists(db: Executor, role: string): Promise<boolean> {
  const row = await db.selectFrom('roles').select('role').where('role', '=', role).executeTakeFirst()
  return row !== undefined
}

/** False if there is no such company, or its deletion has begun. */
export async function setCompanyStatus(db: Executor, companyId: string, status: CompanyStatus) {
  const updated = await db
    .updateTable('companies')
    .set({ status })
    .where('company_id', '=', companyId)
    .where('status', '!=', 'deleting')
    .returning('company_id')
    .executeTakeFirst()
  return updated !== undefined
}

/** False if there is no such user, or the user is deleted or is another than `where` says. */
export async function updateUser(
  db: Executor,
  companyId: string,
  userId: string,
  change: Updateable<Database['users']>,
  where: Partial<Pick<Selectable<Database['users']>, 'kind' | 'status'>> = {},
): Promise<boolean> {
  const updated = await db
    .updateTable('users')
    .set({ ...change, ...(typeof change.name === 'string' && { search_name: searchFormOf(change.name) }) })
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('status', '!=', 'deleted')
    .where(({ and }) => and(where))
    .returning('user_id')
    .executeTakeFirst()
  return updated !== undefined
}

export async function lockUser(tx: Tx, companyId: string, userId: string): Promise<void> {
  await tx
    .selectFrom('users')
    .select('user_id')
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .forNoKeyUpdate()
    .execute()
}

/** In key order, as an admin who changes the user. Of two admins who leave at once, the second sees one. */
export async function lockUserAndActiveAdmins(tx: Tx, companyId: string, userId: string): Promise<string[]> {
  const isActiveAdmin = sql<boolean>`(role = 'admin' and kind = 'person' and status = 'active')`
  const rows = await tx
    .selectFrom('users')
    .select(['user_id', isActiveAdmin.as('isActiveAdmin')])
    .where('company_id', '=', companyId)
    .where(({ eb, or }) => or([eb('user_id', '=', userId), isActiveAdmin]))
    .orderBy('user_id')
    .forNoKeyUpdate()
    .execute()
  return rows.filter((row) => row.isActiveAdmin).map(({ user_id: id }) => id)
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
