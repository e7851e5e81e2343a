import type { Kysely } from 'kysely'
import type { Database } from '../database/schema.ts'
import { queueMail } from '../mail/service.ts'
import type { System } from '../system.ts'
import { noteTold, takeLapsedAcrossCompanies } from './challenges-repository.ts'

/** Sign-ins whose second factor never came. Whoever began one knows the password, so its member is told, once a day. */

const MAX = 200

interface Context {
  db: Kysely<Database>
  system: System
}

/** Deletes the challenges that have expired, and tells the members. Returns how many were deleted. */
export async function settleLapsedAcrossCompanies({ db, system }: Context, now: number): Promise<number> {
  let total = 0
  for (let deleted = MAX; deleted === MAX; total += deleted) deleted = await settleSome({ db, system }, now)
  return total
}

async function settleSome({ db, system }: Context, now: number): Promise<number> {
  return await db.transaction().execute(async (tx) => {
    const { deleted, signIns } = await takeLapsedAcrossCompanies(tx, new Date(now), MAX)
    for (const { companyId, userId, ipAddress } of signIns) {
      // In the order of their keys, so that two machines never deadlock.
      const recipient = await noteTold(tx, companyId, userId, new Date(now))
      if (recipient === undefined) continue
      const mail = { kind: 'second_factor_missing', recipient, data: { ipAddress }, now } as const
      await queueMail(tx, system, companyId, mail)
    }
    return deleted
  })
}
