import { sql } from 'kysely'
import type { Executor, Transaction } from '../database/connect.ts'
import { type KnownClient, type KnownUntil, knownUntilColumns, learning } from './known-clients-fragments.ts'

/** Until when a network, by its digests, and a device are known for a user. */
export async function findKnownUntil(
  db: Executor,
  companyId: string,
  userId: string,
  { networks, device }: { networks: Buffer[]; device: Buffer | null },
): Promise<KnownUntil> {
  const { rows } = await sql<KnownUntil>`
    with network as (select 1 as ord, digest from unnest(${networks}::bytea[]) as d (digest))
    select ${knownUntilColumns}
    from (select 1 as ord, ${device}::bytea as device) i
    cross join (select ${companyId}::uuid as company_id, ${userId}::uuid as user_id) u`.execute(db)
  return rows[0] ?? { networkKnownUntil: null, deviceKnownUntil: null }
}

/** Makes clients known for a user. */
export async function learnClients(
  tx: Transaction,
  companyId: string,
  userId: string,
  learns: KnownClient[],
  until: Date,
): Promise<void> {
  await sql`
    with member as (select ${companyId}::uuid as company_id, ${userId}::uuid as user_id),
    ${learning(sql`member`, learns, until)}
    select`.execute(tx)
}

/** Forgets all clients of a user. */
export async function forgetClients(tx: Transaction, companyId: string, userId: string): Promise<void> {
  await sql`
    delete from known_clients where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}
