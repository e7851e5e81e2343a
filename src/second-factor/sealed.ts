import type { Sealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { NIL_ID } from '../system.ts'
import { listSealedAcrossCompanies, resealSecret } from './repository.ts'

const MAX_ROWS = 1_000

/** Binds a sealed secret to company and factor, so that it can't be opened in a different row. */
export function sealingContext(companyId: string, factorId: string): string {
  return `authenticator-app:${companyId}:${factorId}`
}

/** Reseals the secrets of previous master keys, and returns their number. @throws DecryptionError */
export async function resealFactorsAcrossCompanies(db: Executor, sealer: Sealer): Promise<number> {
  let resealed = 0
  for (let last = { companyId: NIL_ID, factorId: NIL_ID }; ; ) {
    const rows = await listSealedAcrossCompanies(db, last, MAX_ROWS)
    for (const { companyId, factorId, sealedSecret } of rows) {
      if (sealer.isCurrent(sealedSecret)) continue
      const context = sealingContext(companyId, factorId)
      const after = sealer.seal(sealer.open(sealedSecret, context), context)
      await resealSecret(db, companyId, factorId, { before: sealedSecret, after })
      resealed += 1
    }
    const end = rows.at(-1)
    if (!end || rows.length < MAX_ROWS) return resealed
    last = end
  }
}
