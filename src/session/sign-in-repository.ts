import { sql } from 'kysely'
import { type Identity, identities, identityColumns } from '../company/identity-fragments.ts'
import { inOrder } from '../database/batch.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { type KnownUntil, knownUntilColumns } from './known-clients-fragments.ts'

/** The look-up of sign-in. */

export interface SignInItem {
  companyId: string
  /** In its stored form. */
  email: string
  /** The digests of the client's network. */
  networks: Buffer[]
  /** The digest of the client's device cookie. */
  device: Buffer | null
}

const signInTable = itemTable<SignInItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  email: ['text', ({ email }) => email],
  device: ['bytea', ({ device }) => device],
})

/** An account, and whether network and device of the client are known for it. */
export interface Candidate {
  identity: Identity
  known: KnownUntil
}

/** Finds accounts by e-mail. One outcome per item, in order; null if there is no account. */
export async function findCandidates(db: Executor, items: SignInItem[]): Promise<(Candidate | null)[]> {
  const networks = items.flatMap((item, index) => item.networks.map((digest) => ({ ord: index + 1, digest })))
  const { rows } = await sql<Identity & KnownUntil & { ord: number }>`
    with network as (
      select * from unnest(${networks.map(({ ord }) => ord)}::int[], ${networks.map(({ digest }) => digest)}::bytea[])
        as n (ord, digest)
    )
    select i.ord::int, ${identityColumns}, ${knownUntilColumns}
    from ${signInTable(items)} ${identities}`.execute(db)
  return inOrder(items.length, rows).map((row) => {
    if (!row) return null
    const { networkKnownUntil, deviceKnownUntil, ...identity } = row
    return { identity, known: { networkKnownUntil, deviceKnownUntil } }
  })
}
