import { sql, type Transaction } from 'kysely'
import type { Database } from '../database/schema.ts'
import { type KnownClient, learning } from './known-clients-fragments.ts'

/** Makes clients known for a user. */
export async function learnClients(
  tx: Transaction<Database>,
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
export async function forgetClients(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
): Promise<void> {
  await sql`
    delete from known_clients where company_id = ${companyId} and user_id = ${userId}`.execute(tx)
}
