import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { listSealedAcrossCompanies, resealSecret } from './repository.ts'

/** Signing secrets under the master key. */

/** What a sealed secret is bound to: in another row, or as another version, it does not open. */
export function contextOf(companyId: string, version: number): string {
  return `signing-secret:${companyId}:${version}`
}

/** Seals anew what a former master key sealed; returns how many secrets that were. @throws DecryptionError */
export async function resealSecretsAcrossCompanies(db: Executor, sealer: Sealer): Promise<number> {
  const outdated = (await listSealedAcrossCompanies(db)).filter(
    ({ sealedSecret }) => !sealer.isCurrent(sealedSecret),
  )
  for (const { companyId, version, sealedSecret } of outdated) {
    const context = contextOf(companyId, version)
    const after = sealer.seal(sealer.open(sealedSecret, context), context)
    await resealSecret(db, companyId, { before: sealedSecret, after })
  }
  return outdated.length
}
