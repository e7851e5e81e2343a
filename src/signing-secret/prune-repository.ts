import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteLapsed, deleteOfCompany } from '../database/prune.ts'

const FORMER = { table: 'former_signing_secrets', key: ['company_id'] } as const
const REFUSALS = { table: 'refused_requests', key: ['company_id', 'minute', 'reason', 'network'] } as const

/** Deletes at most `max` secrets that were replaced before `before`; returns how many. */
export async function pruneFormerSecretsAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, FORMER, sql`replaced_at < ${before}`, max)
}

/** Deletes at most `max` sums of refused requests from before `before`; returns how many. */
export async function pruneRefusedRequestsAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, REFUSALS, sql`minute < ${before}`, max)
}

/** Deletes at most `max` sums of a company's refused requests; returns how many. */
export async function deleteRefusedRequests(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, REFUSALS, max)
}

/** Deletes the signing secret of a company, and the one before it; returns how many there were. */
export async function deleteSecret(db: Executor, companyId: string): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with former as (delete from former_signing_secrets where company_id = ${companyId})
    delete from signing_secrets where company_id = ${companyId}`.execute(db)
  return Number(numAffectedRows)
}
