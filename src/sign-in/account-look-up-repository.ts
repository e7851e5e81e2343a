import { sql } from 'kysely'
import { type Identity, identities, identityColumns } from '../company/identity-repository.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import type { CompanyStatus } from '../database/schema.ts'
import { type KnownUntil, knownUntilColumns } from './known-clients-repository.ts'

/** Finds the accounts that sign-ins name, and until when their clients are known, in one statement for many. */

export interface SignInItem {
  companyId: string
  email: string
  /** Digests, as the next one. */
  networks: Buffer[]
  device: Buffer | null
}

const signInTable = itemTable<SignInItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  email: ['text', ({ email }) => email],
  device: ['bytea', ({ device }) => device],
})

export interface Candidate {
  /** Null if there is no such company. */
  companyStatus: CompanyStatus | null
  identity: Identity | null
  known: KnownUntil
}

type Row = { ord: number; statusOfCompany: CompanyStatus | null } & KnownUntil &
  (Identity | { [Name in keyof Identity]: null })

/** One outcome per item, in order, of one row each, whether or not there is an account. */
export async function findCandidates(db: Executor, items: SignInItem[]): Promise<(Candidate | null)[]> {
  const networks = items.flatMap((item, index) => item.networks.map((digest) => ({ ord: index + 1, digest })))
  const { rows } = await sql<Row>`
    with network as (
      select * from unnest(${networks.map(({ ord }) => ord)}::int[], ${networks.map(({ digest }) => digest)}::bytea[])
        as n (ord, digest)
    )
    select i.ord::int, c.status as "statusOfCompany", f.*
    from ${signInTable(items)}
    left join companies c on c.company_id = i.company_id
    left join lateral (select ${identityColumns}, ${knownUntilColumns} from (select) one ${identities}) f on true`.execute(
    db,
  )
  return inOrder(items.length, rows).map((row) => row && toCandidate(row))
}

function toCandidate({ ord: _ord, statusOfCompany, networkKnownUntil, deviceKnownUntil, ...account }: Row) {
  const identity = account.userId === null ? null : account
  return { companyStatus: statusOfCompany, identity, known: { networkKnownUntil, deviceKnownUntil } }
}
