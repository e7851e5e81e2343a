import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { listSealedAcrossCompanies, resealSecret } from './repository.ts'

/** Binds a sealed secret to company and version: with others it does not open. */
export function contextOf(companyId: string, version: number): string {
  return `signing-secret:${companyId}:${version}`
}

/** Returns how many there were. @throws DecryptionError */
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
