import { type RawBuilder, sql } from 'kysely'
import { searchFormOf } from '../company/repository.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { FactorKind, UserKind } from '../database/schema.ts'
import { normalizeEmail } from '../http/email-address.ts'
import { isPasswordOver } from '../session/session-fragments.ts'

/** Members of a company: the users that are not deleted, as its admins see them. */

/** Times in RFC 3339, as JSON of the database has them. */
export interface WorkingPassword {
  /** Its last characters; null, as is `createdAt`, for one from before service passwords had a form of their own. */
  hint: string | null
  createdAt: string | null
  /** To the hour; null if never. */
  lastUsedAt: string | null
  /** Null for the one in use. */
  expiresAt: string | null
}

export interface Member {
  id: string
  kind: UserKind
  email: string
  name: string
  role: string
  assignments: string[]
  status: 'active' | 'disabled'
  emailVerified: boolean
  secondFactors: FactorKind[]
  /** Of a service member: those that work, the newest first; null for a person. */
  passwords: WorkingPassword[] | null
  /** To the hour; null if never. */
  lastSignInAt: Date | null
  createdAt: Date
}

/** That of before the table has no row before it is replaced. */
const passwords = sql`case u.kind when 'service' then (
    select coalesce(json_agg(json_build_object('hint', p.hint, 'createdAt', p.created_at, 'lastUsedAt', p.last_used_at,
      'expiresAt', case when p.password_epoch < u.password_epoch then u.former_password_until end)
      order by p.password_epoch desc), '[]')
    from (
      select password_epoch, hint, created_at, last_used_at from service_passwords p
      where p.company_id = u.company_id and p.user_id = u.user_id
      union all
      select 0, null, null, u.last_sign_in_at where u.password_epoch = 0 and u.password_hash <> ''
    ) p
    where not ${isPasswordOver(sql`p.password_epoch`, 'u')}
  ) end`

const columns = sql`u.user_id as id, u.kind, u.email, u.name, u.role, u.assignments, u.status,
  u.email_verified_at is not null as "emailVerified", u.second_factors as "secondFactors", u.last_sign_in_at as "lastSignInAt",
  u.created_at as "createdAt", ${passwords} as passwords`

/** The list goes on after this one. */
export interface Position {
  name: string
  id: string
}

export interface Filter {
  /** A part of name or e-mail, accents and case aside. */
  search?: string | undefined
  role?: string | undefined
  status?: Member['status'] | undefined
}

const areIn = (companyId: string, { search, role, status }: Filter) => {
  const conditions = [sql`u.company_id = ${companyId}`, sql`u.status <> 'deleted'`]
  if (role !== undefined) conditions.push(sql`u.role = ${role}`)
  if (status !== undefined) conditions.push(sql`u.status = ${status}`)
  if (search !== undefined)
    // The name as it is, too, since an instance from before the column writes that alone.
    conditions.push(sql`(strpos(u.search_name, ${searchFormOf(search)}) > 0
      or strpos(lower(u.name), lower(${search}::text)) > 0 or strpos(u.email, ${normalizeEmail(search)}) > 0)`)
  return sql.join(conditions, sql` and `)
}

export async function countMatching(db: Executor, companyId: string, filter: Filter): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from users u where ${areIn(companyId, filter)}`.execute(db)
  return rows[0]?.count ?? 0
}

/** In bytes, as the index users_by_name has it: the order does not change with the system. */
const byName = sql`lower(u.name) collate "C", u.user_id`

/** By name. */
export async function listMembers(
  db: Executor,
  companyId: string,
  { after, max, ...filter }: Filter & { after: Position | undefined; max: number },
): Promise<Member[]> {
  const further = after ? sql`and (${byName}) > (lower(${after.name}::text), ${after.id}::uuid)` : sql``
  const { rows } = await sql<Member>`
    select ${columns} from users u
    where ${areIn(companyId, filter)} ${further}
    order by ${byName} limit ${max}`.execute(db)
  return rows
}

export async function findMember(db: Executor, companyId: string, memberId: string) {
  const { rows } = await selectOne(companyId, sql`u.user_id = ${memberId}`).execute(db)
  return rows[0]
}

const selectOne = (companyId: string, where: RawBuilder<unknown>) => sql<Member>`
  select ${columns} from users u
  where u.company_id = ${companyId} and u.status <> 'deleted' and ${where}`

/**
 * Locks both in the order of their keys, and returns the member. The actor's right is read after this: of two admins who
 * demote each other, the second finds that it has none.
 */
export async function lockActorAndMember(tx: Tx, companyId: string, actorId: string, memberId: string) {
  const { rows } = await sql<Member>`
    with locked as (
      select * from users u
      where u.company_id = ${companyId} and u.user_id in (${actorId}, ${memberId}) and u.status <> 'deleted'
      order by u.user_id
      for no key update
    )
    select ${columns} from locked u`.execute(tx)
  return rows.find(({ id }) => id === memberId)
}

/** Locks the subscription of a company, so that one transaction at a time adds to what is counted. True in trial. */
export async function lockQuotas(tx: Tx, companyId: string): Promise<boolean> {
  const { rows } = await sql<{ isTrial: boolean }>`
    select status = 'trialing' as "isTrial" from subscriptions where company_id = ${companyId}
    for no key update`.execute(tx)
  return rows[0]?.isTrial ?? true
}

export async function countMembers(tx: Tx, companyId: string): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from users where company_id = ${companyId} and status <> 'deleted'`.execute(
    tx,
  )
  return rows[0]?.count ?? 0
}
