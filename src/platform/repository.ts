import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Platform clients. Only hashes of their secrets are stored. */

export interface PlatformClient {
  id: string
  name: string
  scopes: string[]
}

const shown = ['client_id as id', 'name', 'scopes'] as const

export async function listClients(db: Executor) {
  return await db
    .selectFrom('platform_clients')
    .select([...shown, 'created_at as createdAt', 'last_used_at as lastUsedAt'])
    .orderBy('client_id')
    .execute()
}

export type ClientWithSecrets = Awaited<ReturnType<typeof listClientsWithSecrets>>[number]

export async function listClientsWithSecrets(db: Executor) {
  return await db
    .selectFrom('platform_clients')
    .select([...shown, 'secret_hash as secretHash', 'former_secret_hash as formerSecretHash'])
    .execute()
}

export async function insertClient(
  db: Executor,
  { id, name, scopes, secretHash, createdAt }: PlatformClient & { secretHash: Buffer; createdAt: Date },
): Promise<void> {
  await db
    .insertInto('platform_clients')
    .values({ client_id: id, name, scopes, secret_hash: secretHash, created_at: createdAt })
    .execute()
}

/** The current secret becomes the previous one, and an older one stops working. */
export async function addSecret(db: Executor, id: string, secretHash: Buffer) {
  return await db
    .updateTable('platform_clients')
    .set({ secret_hash: secretHash, former_secret_hash: sql.ref('secret_hash') })
    .where('client_id', '=', id)
    .returning(shown)
    .executeTakeFirst()
}

export async function removeFormerSecret(db: Executor, id: string) {
  return await db
    .updateTable('platform_clients')
    .set({ former_secret_hash: null })
    .where('client_id', '=', id)
    .returning(shown)
    .executeTakeFirst()
}

export async function deleteClient(db: Executor, id: string) {
  return await db
    .deleteFrom('platform_clients')
    .where('client_id', '=', id)
    .returning(shown)
    .executeTakeFirst()
}

export async function touchClient(db: Executor, id: string, at: Date): Promise<void> {
  await db
    .updateTable('platform_clients')
    .set({ last_used_at: at })
    .where('client_id', '=', id)
    .where((is) => is.or([is('last_used_at', 'is', null), is('last_used_at', '<', at)]))
    .execute()
}
