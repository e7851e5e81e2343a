import { sql } from 'kysely'
import { type Identity, identities, identityColumns } from '../company/identity-repository.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus } from '../database/schema.ts'
import { type KnownUntil, knownUntilColumn } from '../session/known-clients-repository.ts'
import { isPasswordOver } from '../session/session-fragments.ts'
import { NIL_ID } from '../system.ts'

/** Finds the accounts that sign-ins name, and until when their clients are known, in one statement for many. */

export interface SignInItem {
  /** Null where the company is named by its handle. */
  companyId: string | null
  handle: string | null
  email: string
  /** Of a service password; null for one of another form. */
  digest: Buffer | null
}

const signInTable = itemTable<SignInItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  handle: ['text', ({ handle }) => handle],
  email: ['text', ({ email }) => email],
  digest: ['bytea', ({ digest }) => digest],
})

export interface Candidate {
  /** As it was given, or that of the handle; null if no company has it. */
  companyId: string | null
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
  /** For a service password, only the account whose password it is. */
  identity: Identity | null
  /** Whose e-mail it is. */
  named: Named | null
  knownUntil: KnownUntil
  /** Of the account's service password that has this digest and works. */
  passwordEpoch: number | null
}

export type Named = Pick<Identity, 'userId' | 'userStatus'>

type Row = {
  ord: number
  idOfCompany: string | null
  statusOfCompany: CompanyStatus | null
  namedUserId: string | null
  namedStatus: Identity['userStatus'] | null
  knownUntil: KnownUntil
  passwordEpoch: number | null
} & (Identity | { [Name in keyof Identity]: null })

/**
 * Joined to items `i`, each with the same work whether or not somebody has the e-mail. For a wrong service password that is all:
 * no hash hides the time that an account takes.
 */
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

/** One outcome per item, in order, of one row each, whether or not there is an account. */
export async function findCandidates(db: Executor, items: SignInItem[]): Promise<(Candidate | null)[]> {
  const { rows } = await sql<Row>`
    select i.ord::int, i.company_id as "idOfCompany", c.status as "statusOfCompany", n.user_id as "namedUserId",
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
    ) f on true`.execute(db)
  return inOrder(items.length, rows).map((row) => row && toCandidate(row))
}

function toCandidate({
  ord: _ord,
  idOfCompany,
  statusOfCompany,
  namedUserId,
  namedStatus,
  knownUntil,
  passwordEpoch,
  ...account
}: Row): Candidate {
  const identity = account.userId === null ? null : account
  const ofEmail = namedUserId && namedStatus ? { userId: namedUserId, userStatus: namedStatus } : null
  const named = identity ?? ofEmail
  return {
    companyId: idOfCompany,
    companyStatus: statusOfCompany,
    identity,
    named,
    knownUntil,
    passwordEpoch,
  }
}
