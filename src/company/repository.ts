import type { ExpressionBuilder, NotNull, Selectable, Updateable } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import type { Database, SubscriptionStatus, UserKind } from '../database/schema.ts'
import { DEFAULT_ASSIGNMENTS } from './account.ts'

/** Companies, subscriptions, and users. Statements for sign-in are in identity-repository.ts. */

export interface NewUser {
  userId: string
  kind?: UserKind | undefined
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
  { name, plan, createdAt, trialEnd }: { name: string; plan: string; createdAt: Date; trialEnd: Date },
): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('companies')
    .values({ company_id: companyId, name, status: 'active', created_at: createdAt })
    .onConflict((conflict) => conflict.column('company_id').doNothing())
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows !== 1n) return false
  await tx
    .insertInto('subscriptions')
    .values({ company_id: companyId, plan, status: 'trialing', current_period_end: trialEnd })
    .execute()
  return true
}

/** Search ignores accents and case. */
export function searchFormOf(text: string): string {
  return text.normalize('NFKD').replace(/\p{M}/gu, '').toLowerCase()
}

/** False if the company already has a user with this email. */
export async function insertUser(db: Executor, companyId: string, user: NewUser): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await db
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
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
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
export async function updateCompany(
  db: Executor,
  companyId: string,
  change: Updateable<Database['companies']>,
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('companies')
    .set(change)
    .where('company_id', '=', companyId)
    .where('status', '!=', 'deleting')
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export const updatingUser = (db: Executor, companyId: string, userId: string) =>
  db.updateTable('users').where('company_id', '=', companyId).where('user_id', '=', userId)

/** False if there is no such user, or the user is deleted or of a different kind or status. */
export async function updateUser(
  db: Executor,
  companyId: string,
  { userId, ...where }: { userId: string } & Partial<Pick<Selectable<Database['users']>, 'kind' | 'status'>>,
  change: Updateable<Database['users']>,
): Promise<boolean> {
  const { numUpdatedRows } = await updatingUser(db, companyId, userId)
    .set({ ...change, ...(typeof change.name === 'string' && { search_name: searchFormOf(change.name) }) })
    .where('status', '!=', 'deleted')
    .where(({ and }) => and(where))
    .executeTakeFirst()
  return numUpdatedRows > 0n
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

const isActiveAdmin = ({ and }: ExpressionBuilder<Database, 'users'>) =>
  and({ role: 'admin', kind: 'person', status: 'active' })

/** Locks in key order, like admins' changes. Of two admins who leave at the same time, the second sees one. */
export async function lockUserAndActiveAdmins(tx: Tx, companyId: string, userId: string): Promise<string[]> {
  const rows = await tx
    .selectFrom('users')
    .select((eb) => ['user_id as userId', isActiveAdmin(eb).as('isActiveAdmin')])
    .where('company_id', '=', companyId)
    .where((eb) => eb.or([eb('user_id', '=', userId), isActiveAdmin(eb)]))
    .orderBy('user_id')
    .forNoKeyUpdate()
    .execute()
  return rows.filter((row) => row.isActiveAdmin).map((row) => row.userId)
}

export async function setSubscription(
  db: Executor,
  companyId: string,
  { status, plan }: { status: SubscriptionStatus; plan?: string | undefined },
): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('subscriptions')
    .set({ status, plan })
    .where('company_id', '=', companyId)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

const SECURITY_COLUMNS = [
  'second_factor_policy as secondFactor',
  'session_idle_seconds as sessionIdleSeconds',
  'session_max_age_seconds as sessionMaxAgeSeconds',
] as const

/** `concerned`: how many active people have no second factor and would need one, by setting. */
export async function findSecurity(db: Executor, companyId: string) {
  const row = await db
    .selectFrom('companies as c')
    .crossJoinLateral(({ selectFrom }) =>
      selectFrom('users as u')
        .select(({ fn, cast }) => [
          cast<number>(fn.countAll().filterWhere('u.role', '=', 'admin'), 'integer').as('admins'),
          cast<number>(fn.countAll(), 'integer').as('everyone'),
        ])
        .whereRef('u.company_id', '=', 'c.company_id')
        .where('u.kind', '=', 'person')
        .where('u.status', '=', 'active')
        .where(({ eb, val }) => eb('u.second_factors', '=', val([])))
        .as('n'),
    )
    .select([...SECURITY_COLUMNS, 'n.admins', 'n.everyone'])
    .where('c.company_id', '=', companyId)
    .where('c.status', '!=', 'deleting')
    .executeTakeFirst()
  if (!row) return undefined
  const { admins, everyone, ...settings } = row
  return { ...settings, concerned: { optional: 0, admins, everyone } }
}

export type Security = NonNullable<Awaited<ReturnType<typeof findSecurity>>>

export type SecuritySettings = Omit<Security, 'concerned'>

export async function lockSecurity(tx: Tx, companyId: string): Promise<SecuritySettings | undefined> {
  return await tx
    .selectFrom('companies')
    .select(SECURITY_COLUMNS)
    .where('company_id', '=', companyId)
    .where('status', '!=', 'deleting')
    .forNoKeyUpdate()
    .executeTakeFirst()
}

const MAX_TOLD = 100

export async function listAdminEmails(tx: Tx, companyId: string): Promise<string[]> {
  const admins = await tx
    .selectFrom('users')
    .select('email')
    .where('company_id', '=', companyId)
    .where(isActiveAdmin)
    .where('email_verified_at', 'is not', null)
    .orderBy('user_id')
    .limit(MAX_TOLD)
    .$narrowType<{ email: NotNull }>()
    .execute()
  return admins.map(({ email }) => email)
}
