import { type RawBuilder, sql } from 'kysely'

/** False for a revoked key, such as a leaked one. Postgres reads the keys once a statement. */
export function isKeyInForce(keyId: RawBuilder<unknown>) {
  return sql`${keyId} = any (array(select key_id from signing_keys where revoked_at is null))`
}
