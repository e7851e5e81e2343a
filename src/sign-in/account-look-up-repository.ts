import { sql } from 'kysely'
import { type Identity, identities, identityColumns } from '../company/identity-repository.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus } from '../database/schema.ts'
import { isPasswordOver } from '../session/session-fragments.ts'
import { type KnownUntil, knownUntilColumn } from './known-clients-repository.ts'

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
  identity: Identity | null
  knownUntil: KnownUntil
  /** Of the account's service password that has this digest and works. */
  passwordEpoch: number | null
}

type Row = {
  ord: number
  idOfCompany: string | null
  statusOfCompany: CompanyStatus | null
  knownUntil: KnownUntil
  passwordEpoch: number | null
} & (Identity | { [Name in keyof Identity]: null })

/** As cookies are found: the index compares digests, so its time tells nothing of a password. */
const passwordEpochColumn = sql`(
  select p.password_epoch from service_passwords p
  where p.company_id = u.company_id and p.user_id = u.user_id and p.digest = i.digest
    and not ${isPasswordOver(sql`p.password_epoch`, 'u')}) as "passwordEpoch"`

/** One outcome per item, in order, of one row each, whether or not there is an account. */
export async function findCandidates(db: Executor, items: SignInItem[]): Promise<(Candidate | null)[]> {
  const { rows } = await sql<Row>`
    select i.ord::int, i.company_id as "idOfCompany", c.status as "statusOfCompany", f.*
    from (
      select ord, email, digest,
        coalesce(company_id, (select n.company_id from companies n where n.handle = i.handle)) as company_id
      from ${signInTable(items)}
    ) i
    left join companies c on c.company_id = i.company_id
    left join lateral (
      select ${identityColumns}, ${knownUntilColumn}, ${passwordEpochColumn} from (select) one ${identities}
    ) f on true`.execute(db)
  return inOrder(items.length, rows).map((row) => row && toCandidate(row))
}

function toCandidate({
  ord: _ord,
  idOfCompany,
  statusOfCompany,
  knownUntil,
  passwordEpoch,
  ...account
}: Row): Candidate {
  const identity = account.userId === null ? null : account
  return { companyId: idOfCompany, companyStatus: statusOfCompany, identity, knownUntil, passwordEpoch }
}
