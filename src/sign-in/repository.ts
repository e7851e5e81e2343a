import { sql } from 'kysely'
import type { MemberIds } from '../company/account.ts'
import { type Identity, identities, identityColumns } from '../company/identity-repository.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor, Tx } from '../database/connect.ts'
import type { CompanyStatus } from '../database/schema.ts'
import { isPasswordOver, type KnownUntil, knownUntilColumn } from '../session/session-fragments.ts'
import { NIL_ID } from '../system.ts'

/** Accounts that sign-ins name, in one statement for many, and challenges that expired unanswered. */

const DAY_MS = 86_400_000

export interface SignInItem {
  companyId: string | null
  handle: string | null
  email: string
  /** For a service password. */
  digest: Buffer | null
}

const signInTable = itemTable<SignInItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  handle: ['text', ({ handle }) => handle],
  email: ['text', ({ email }) => email],
  digest: ['bytea', ({ digest }) => digest],
})

export interface Candidate {
  /** As given, or found by the handle; null for an unknown handle. */
  companyId: string | null
  companyStatus: CompanyStatus | null
  /** With a service password, only the account that has it. */
  identity: Identity | null
  /** The user with this email, whatever the password. */
  named: Pick<Identity, 'userId' | 'userStatus'> | null
  knownUntil: KnownUntil
  /** The epoch of the matching service password, if it still works. */
  passwordEpoch: number | null
}

type Row = {
  idOfCompany: string | null
  statusOfCompany: CompanyStatus | null
  namedUserId: string | null
  namedStatus: Identity['userStatus'] | null
  knownUntil: KnownUntil
  passwordEpoch: number | null
} & (Identity | { [Name in keyof Identity]: null })

/** For items `i`. Known and unknown emails must cost the same work, because no hashing hides a time difference. */
const servicePassword = sql`
  left join lateral (
    select user_id, status, password_epoch, former_password_until from users
    where i.digest is not null and company_id = i.company_id and email = i.email limit 1
  ) n on true
  -- As cookies are found: a comparison of digests tells nothing of a password.
  left join lateral (
    select p.password_epoch from service_passwords p
    where i.digest is not null and p.company_id = i.company_id and p.user_id = coalesce(n.user_id, ${NIL_ID}::uuid)
      and p.digest = i.digest and not ${isPasswordOver(sql`p.password_epoch`, 'n')}
    limit 1
  ) p on true`

export async function findCandidates(db: Executor, items: SignInItem[]): Promise<Candidate[]> {
  const { rows } = await sql<Row>`
    select i.company_id as "idOfCompany", c.status as "statusOfCompany", n.user_id as "namedUserId",
      n.status as "namedStatus", p.password_epoch as "passwordEpoch", f.*
    from (
      select ord, email, digest,
        coalesce(company_id, (select n.company_id from companies n where n.handle = i.handle)) as company_id
      from ${signInTable(items)}
    ) i
    left join companies c on c.company_id = i.company_id
    ${servicePassword}
    left join lateral (
      select ${identityColumns}, ${knownUntilColumn} from (select) one ${identities}
      where i.digest is null or p.password_epoch is not null
      -- So that the condition is tested first, and not on each row.
      offset 0
    ) f on true
    order by i.ord`.execute(db)
  if (rows.length !== items.length) throw new Error('the number of rows differs from the number of sign-ins')
  return rows.map(
    ({ idOfCompany, statusOfCompany, namedUserId, namedStatus, knownUntil, passwordEpoch, ...account }) => {
      const identity = account.userId === null ? null : account
      const ofEmail = namedUserId && namedStatus ? { userId: namedUserId, userStatus: namedStatus } : null
      const company = { companyId: idOfCompany, companyStatus: statusOfCompany }
      return { ...company, identity, named: identity ?? ofEmail, knownUntil, passwordEpoch }
    },
  )
}

/** Members with expired challenges, in key order, after `last`. */
export async function listLapsedAcrossCompanies(db: Executor, until: Date, last: MemberIds, max: number) {
  return await db
    .selectFrom('second_factor_challenges')
    .select(['company_id as companyId', 'user_id as userId'])
    .distinct()
    .where('expires_at', '<=', until)
    .where(({ eb, refTuple, tuple }) =>
      eb(refTuple('company_id', 'user_id'), '>', tuple(last.companyId, last.userId)),
    )
    .orderBy('company_id')
    .orderBy('user_id')
    .limit(max)
    .execute()
}

/** Lock the member first. Returns the sign-ins whose password still works. */
export async function deleteLapsed(tx: Tx, companyId: string, userId: string, until: Date) {
  const deleted = await tx
    .deleteFrom('second_factor_challenges as h')
    .using('users as u')
    .where('h.company_id', '=', companyId)
    .where('h.user_id', '=', userId)
    .where('h.expires_at', '<=', until)
    .whereRef('u.company_id', '=', 'h.company_id')
    .whereRef('u.user_id', '=', 'h.user_id')
    .returning(({ eb, ref }) => [
      ref('u.email').$notNull().as('email'),
      'h.network',
      'h.ip_address as ipAddress',
      'h.created_at as at',
      eb('h.purpose', '=', 'sign_in').and('u.session_epoch', '=', ref('h.user_epoch')).as('isOpen'),
    ])
    .execute()
  return deleted.filter(({ isOpen }) => isOpen)
}

/** Returns the email of a member who is due for a notice: at most one a day. */
export async function noteTold(tx: Tx, companyId: string, userId: string, now: Date) {
  const told = await tx
    .updateTable('users')
    .set({ factor_missing_told_at: now })
    .where('company_id', '=', companyId)
    .where('user_id', '=', userId)
    .where('status', '=', 'active')
    .where(({ eb }) =>
      eb('factor_missing_told_at', 'is', null).or(
        'factor_missing_told_at',
        '<=',
        new Date(now.getTime() - DAY_MS),
      ),
    )
    .returning('email')
    .executeTakeFirst()
  return told?.email
}
