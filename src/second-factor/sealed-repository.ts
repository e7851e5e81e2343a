import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** The next authenticator apps after `last`, with their sealed secrets. */
export async function listSealedAcrossCompanies(
  db: Executor,
  last: { companyId: string; factorId: string },
  max: number,
): Promise<{ companyId: string; factorId: string; sealedSecret: string }[]> {
  const { rows } = await sql<{ companyId: string; factorId: string; sealedSecret: string }>`
    select company_id as "companyId", factor_id as "factorId", sealed_secret as "sealedSecret" from second_factors
    where (company_id, factor_id) > (${last.companyId}::uuid, ${last.factorId}::uuid) and kind = 'totp'
    order by company_id, factor_id limit ${max}`.execute(db)
  return rows
}

/** Replaces a sealed secret by the same secret sealed again, unless it is gone. */
export async function resealSecret(
  db: Executor,
  companyId: string,
  factorId: string,
  change: { before: string; after: string },
): Promise<void> {
  await sql`
    update second_factors set sealed_secret = ${change.after}
    where company_id = ${companyId} and factor_id = ${factorId} and sealed_secret = ${change.before}`.execute(
    db,
  )
}
