import { PLATFORM } from '../audit/entry.ts'
import { Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { resealFactorsAcrossCompanies } from '../second-factor/sealed.ts'
import { type ActContext, asOperator } from '../session/acts.ts'
import { resealSecretsAcrossCompanies } from '../signing-secret/service.ts'
import { addKey, resealKeys, revokeKey } from '../token/key-rotation.ts'

/**
 * Seals again what a former master key sealed, and adds the next key for access tokens.
 * @throws DecryptionError if a sealed value does not open with the configured master keys
 */
export async function rotateKeys(context: ActContext & Pick<Context, 'sealer'>) {
  const { db, sealer, system } = context
  const resealedSecrets = await resealSecretsAcrossCompanies(db, sealer)
  const resealedFactors = await resealFactorsAcrossCompanies(db, sealer)
  await resealKeys(db, sealer)
  const by = { companyId: PLATFORM, now: system.now() }
  const { keyId, signsFrom } = await asOperator(context, by, async ({ tx, audit }) => {
    const key = await addKey(tx, { sealer, system }, new Date(by.now))
    await audit('keys_rotate', { subject: key.keyId })
    return key
  })
  return { keyId, signsFrom, resealedSecrets, resealedFactors }
}

/** Retires a leaked key: its tokens fail at once. If it signs, another takes its place. @throws Problem not_found */
export async function retireKey(
  context: ActContext & Pick<Context, 'sealer'>,
  keyId: string,
  now: number,
): Promise<{ keyId: string; replacedBy: string | null }> {
  return await asOperator(context, { companyId: PLATFORM, now }, async ({ tx, audit }) => {
    const successor = await revokeKey(tx, context, keyId, new Date(now))
    if (successor === undefined) {
      throw new Problem('not_found', 'There is no such key that is not retired; `keys list` shows them.')
    }
    await audit('keys_retire', { subject: keyId })
    return { keyId, replacedBy: successor?.keyId ?? null }
  })
}
