import { type RawBuilder, sql } from 'kysely'

/** Whether a key of access tokens is in force: a leaked one is revoked. Postgres reads the keys once a statement. */
export function isKeyInForce(keyId: RawBuilder<unknown>) {
  return sql`${keyId} = any (array(select key_id from signing_keys where revoked_at is null))`
}
