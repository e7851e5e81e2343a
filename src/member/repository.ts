import { type RawBuilder, sql } from 'kysely'
import { searchFormOf } from '../company/repository.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { FactorKind, UserKind } from '../database/schema.ts'
import { normalizeEmail } from '../http/email-address.ts'
import type { Additions } from '../mail/notices.ts'
import { isPasswordOver } from '../session/session-fragments.ts'

/** Members are a company's users, except deleted ones. */

/** Times are RFC 3339: the database builds JSON. The schema `WorkingPasswords` explains when each is null. */
type WorkingPassword = Record<'hint' | 'createdAt' | 'lastUsedAt' | 'expiresAt', string | null>

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
  passwords: WorkingPassword[] | null
  lastSignInAt: Date | null
  createdAt: Date
}

/** A password that is older than the table has no row until it is replaced. */
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

/** `from` aliases users, or a subset, as `u`. */
const select = (from: RawBuilder<unknown>) => sql<Member>`select ${columns} from ${from}`

interface Filter {
  search?: string | undefined
  role?: string | undefined
  status?: Member['status'] | undefined
  kind?: UserKind | undefined
  secondFactor?: 'yes' | 'no' | undefined
}

const areIn = (companyId: string, { search, role, status, kind, secondFactor }: Filter) => {
  const conditions = [sql`u.company_id = ${companyId}`, sql`u.status <> 'deleted'`]
  if (role !== undefined) conditions.push(sql`u.role = ${role}`)
  if (status !== undefined) conditions.push(sql`u.status = ${status}`)
  if (kind !== undefined) conditions.push(sql`u.kind = ${kind}`)
  if (secondFactor !== undefined) {
    const isWanted = secondFactor === 'yes' ? sql`u.second_factors <> '{}'` : sql`u.second_factors = '{}'`
    conditions.push(sql`u.kind = 'person' and ${isWanted}`)
  }
  if (search !== undefined)
    // The name too, because releases from before the search column write only the name.
    conditions.push(sql`(strpos(u.search_name, ${searchFormOf(search)}) > 0
      or strpos(lower(u.name), lower(${search}::text)) > 0 or strpos(u.email, ${normalizeEmail(search)}) > 0)`)
  return sql.join(conditions, sql` and `)
}

export async function countMembers(db: Executor, companyId: string, filter: Filter = {}): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from users u where ${areIn(companyId, filter)}`.execute(db)
  return rows[0]?.count ?? 0
}

/** The order of the index users_by_name. It does not depend on the system's locale. */
const byName = sql`lower(u.name) collate "C", u.user_id`

export async function listMembers(
  db: Executor,
  companyId: string,
  { after, max, ...filter }: Filter & { after: { name: string; id: string } | undefined; max: number },
): Promise<Member[]> {
  const further = after ? sql`and (${byName}) > (lower(${after.name}::text), ${after.id}::uuid)` : sql``
  const page = sql`users u where ${areIn(companyId, filter)} ${further} order by ${byName} limit ${max}`
  return (await select(page).execute(db)).rows
}

export async function findMember(db: Executor, companyId: string, memberId: string) {
  const { rows } = await select(sql`users u
    where u.company_id = ${companyId} and u.user_id = ${memberId} and u.status <> 'deleted'`).execute(db)
  return rows[0]
}

/** Locks in key order. The actor's right is read after this: of two admins who demote each other, only one can. */
export async function lockActorAndMember(tx: Tx, companyId: string, actorId: string, memberId: string) {
  const { rows } = await select(sql`(
    select * from users
    where company_id = ${companyId} and user_id in (${actorId}, ${memberId}) and status <> 'deleted'
    order by user_id
    for no key update
  ) u`).execute(tx)
  return rows.find(({ id }) => id === memberId)
}

/** Locks the subscription, so that one transaction at a time adds members or invitations. True on a trial. */
export async function lockQuotas(tx: Tx, companyId: string): Promise<boolean> {
  const subscription = await tx
    .selectFrom('subscriptions')
    .select('status')
    .where('company_id', '=', companyId)
    .forNoKeyUpdate()
    .executeTakeFirst()
  return !subscription || subscription.status === 'trialing'
}

/** Undefined if no change is pending, or if its link has expired. The link is created when the email is sent. */
export async function findEmailChange(db: Executor, companyId: string, userId: string, now: Date) {
  const { rows } = await sql<{ email: string; requestedAt: Date; expiresAt: Date | null }>`
    select u.pending_email as email, max(r.requested_at) as "requestedAt", max(r.expires_at) as "expiresAt"
    from users u cross join lateral (
      select t.created_at as requested_at, t.expires_at from one_time_tokens t
      where t.company_id = u.company_id and t.user_id = u.user_id and t.purpose = 'confirm'
        and t.email = u.pending_email and t.expires_at > ${now}
      union all
      select m.created_at, null from mail_outbox m
      where m.company_id = u.company_id and m.recipient = u.pending_email and m.kind = 'email_change'
        and m.facts ->> 'userId' = u.user_id::text and m.sent_at is null and m.failed_at is null
    ) r
    where u.company_id = ${companyId} and u.user_id = ${userId}
    group by u.pending_email`.execute(db)
  return rows[0]
}

const MAX_LISTED = 100

export async function listAdditions(
  db: Executor,
  companyId: string,
  { userId, since }: { userId: string; since: Date },
): Promise<Additions> {
  const listed = db
    .selectFrom('users as u')
    .select(['u.user_id as id', 'u.email', 'u.name', 'u.role'])
    .where('u.company_id', '=', companyId)
    .where('u.status', '!=', 'deleted')
    .$narrowType<{ email: string }>()
    .orderBy('u.created_at')
    .orderBy('u.user_id')
    .limit(MAX_LISTED)
  const members = await listed.where('u.invited_by', '=', userId).where('u.created_at', '>=', since).execute()
  const serviceAccounts = await listed
    .where('u.kind', '=', 'service')
    .where(({ exists, selectFrom }) =>
      exists(
        selectFrom('service_passwords as p')
          .select('p.user_id')
          .whereRef('p.company_id', '=', 'u.company_id')
          .whereRef('p.user_id', '=', 'u.user_id')
          .where('p.created_by', '=', userId)
          .where('p.created_at', '>=', since)
          .where(sql<boolean>`not ${isPasswordOver(sql`p.password_epoch`, 'u')}`),
      ),
    )
    .execute()
  const signingSecret = await db
    .selectFrom('signing_secrets')
    .select(['version', 'created_at as createdAt'])
    .where('company_id', '=', companyId)
    .where('created_by', '=', userId)
    .where('created_at', '>=', since)
    .executeTakeFirst()
  return { members, serviceAccounts, signingSecret: signingSecret ?? null }
}
