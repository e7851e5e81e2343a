import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database, FactorKind, UserKind } from '../database/schema.ts'

/** Members of a company: the users that are not deleted, as its admins see them. */

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
  /** To the hour; null if never. */
  lastSignInAt: Date | null
  createdAt: Date
}

const columns = sql`u.user_id as id, u.kind, u.email, u.name, u.role, u.assignments, u.status,
  u.email_verified_at is not null as "emailVerified", u.second_factors as "secondFactors", u.last_sign_in_at as "lastSignInAt",
  u.created_at as "createdAt"`

/** Where the list goes on: after the member of this name and id. */
export interface Place {
  name: string
  id: string
}

/** Members by name. `search` is looked for in name and e-mail, whatever its case. */
export async function listMembers(
  db: Executor,
  companyId: string,
  { search, after, max }: { search: string | undefined; after: Place | undefined; max: number },
): Promise<Member[]> {
  const matching =
    search === undefined
      ? sql``
      : sql`and (strpos(lower(u.name), lower(${search}::text)) > 0 or strpos(u.email, lower(${search}::text)) > 0)`
  const further = after
    ? sql`and (lower(u.name), u.user_id) > (lower(${after.name}::text), ${after.id}::uuid)`
    : sql``
  const { rows } = await sql<Member>`
    select ${columns} from users u
    where u.company_id = ${companyId} and u.status <> 'deleted' ${matching} ${further}
    order by lower(u.name), u.user_id limit ${max}`.execute(db)
  return rows
}

export async function findMember(
  db: Executor,
  companyId: string,
  memberId: string,
): Promise<Member | undefined> {
  const { rows } = await selectOne(companyId, sql`u.user_id = ${memberId}`).execute(db)
  return rows[0]
}

const selectOne = (companyId: string, where: RawBuilder<unknown>) => sql<Member>`
  select ${columns} from users u
  where u.company_id = ${companyId} and u.status <> 'deleted' and ${where}`

/**
 * Locks who acts, and the member whom the act is about, in the order of their keys. Returns the member as it is then; undefined
 * if there is none. What the actor may do is asked for next: of two admins who demote each other, the second finds that it
 * may not.
 */
export async function lockActorAndMember(
  tx: Transaction<Database>,
  companyId: string,
  actorId: string,
  memberId: string,
): Promise<Member | undefined> {
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

/** Replaces the password of a service member; false if there is none with this id. */
export async function replaceServicePassword(
  tx: Transaction<Database>,
  companyId: string,
  memberId: string,
  passwordHash: string,
): Promise<boolean> {
  const updated = await tx
    .updateTable('users')
    .set({ password_hash: passwordHash, locked_out_at: null })
    .where('company_id', '=', companyId)
    .where('user_id', '=', memberId)
    .where('kind', '=', 'service')
    .where('status', '!=', 'deleted')
    .returning('user_id')
    .executeTakeFirst()
  return updated !== undefined
}
