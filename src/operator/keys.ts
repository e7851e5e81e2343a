import type { Kysely } from 'kysely'
import { PLATFORM } from '../audit/entry.ts'
import type { Sealer } from '../crypto/sealing.ts'
import type { Database } from '../database/schema.ts'
import { resealSecretsAcrossCompanies } from '../signing-secret/sealed.ts'
import type { System } from '../system.ts'
import { addKey, resealKeys } from '../token/key-rotation.ts'
import { auditOperator } from './audit.ts'

/**
 * Seals again what a former master key sealed, and adds the next key for access tokens. Returns how many
 * signing secrets were sealed again, the new key's id, and when it starts to sign.
 * @throws DecryptionError if a sealed value does not open with the configured master keys
 */
export async function rotateKeys({
  db,
  sealer,
  system,
}: {
  db: Kysely<Database>
  sealer: Sealer
  system: System
}): Promise<{ keyId: string; signsFrom: Date; resealedSecrets: number }> {
  const resealedSecrets = await resealSecretsAcrossCompanies(db, sealer)
  await resealKeys(db, sealer)
  const now = new Date(system.now())
  const { keyId, signsFrom } = await db.transaction().execute(async (tx) => {
    const key = await addKey(tx, { sealer, system }, now)
    await auditOperator(tx, system, PLATFORM, now, { action: 'keys_rotate', subject: key.keyId })
    return key
  })
  return { keyId, signsFrom, resealedSecrets }
}
