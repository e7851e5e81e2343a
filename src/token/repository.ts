import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** The platform's signing keys. They belong to no company. Private keys are stored only sealed. */

/** RFC 7517, for ES256 (RFC 7518, section 6.2.1). */
export interface PublicJwk {
  kty: 'EC'
  crv: 'P-256'
  x: string
  y: string
  kid: string
  alg: 'ES256'
  use: 'sig'
}

export type StoredKey = Awaited<ReturnType<typeof listKeys>>[number]

export async function listKeys(db: Executor) {
  return await db
    .selectFrom('signing_keys')
    .select(({ ref }) => [
      'sequence',
      'key_id as keyId',
      ref('public_jwk').$castTo<PublicJwk>().as('publicJwk'),
      'sealed_private_key as sealedPrivateKey',
      'created_at as createdAt',
      'signs_from as signsFrom',
      // The key and its tokens are invalid after this time. Null unless revoked.
      'revoked_at as revokedAt',
    ])
    .orderBy('sequence')
    .execute()
}

/** False if its sequence number is taken. */
export async function insertKey(db: Executor, key: StoredKey): Promise<boolean> {
  const inserted = await db
    .insertInto('signing_keys')
    .values({
      sequence: key.sequence,
      key_id: key.keyId,
      public_jwk: JSON.stringify(key.publicJwk),
      sealed_private_key: key.sealedPrivateKey,
      created_at: key.createdAt,
      signs_from: key.signsFrom,
      revoked_at: key.revokedAt,
    })
    .onConflict((conflict) => conflict.column('sequence').doNothing())
    .returning('sequence')
    .executeTakeFirst()
  return inserted !== undefined
}

export async function resealKey(
  db: Executor,
  keyId: string,
  { before, after }: { before: string; after: string },
): Promise<void> {
  await db
    .updateTable('signing_keys')
    .set({ sealed_private_key: after })
    .where('key_id', '=', keyId)
    .where('sealed_private_key', '=', before)
    .execute()
}

function revoking(db: Executor, at: Date) {
  return db
    .updateTable('signing_keys')
    .set({ revoked_at: at })
    .where('revoked_at', 'is', null)
    .returning('key_id as keyId')
}

export async function setAllRevoked(db: Executor, at: Date): Promise<string[]> {
  return (await revoking(db, at).execute()).map(({ keyId }) => keyId)
}

/** False if there is no such key, or it is already revoked. */
export async function setRevoked(db: Executor, keyId: string, at: Date): Promise<boolean> {
  return (await revoking(db, at).where('key_id', '=', keyId).executeTakeFirst()) !== undefined
}

/** False for a revoked key. Postgres reads the keys once per statement. */
export function isKeyInForce(keyId: RawBuilder<unknown>) {
  return sql`${keyId} = any (array(select key_id from signing_keys where revoked_at is null))`
}
