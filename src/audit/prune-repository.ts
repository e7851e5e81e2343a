import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { deleteLapsed, deleteOfCompany } from '../database/prune.ts'

const ADDRESSES = { table: 'audit_addresses', key: ['company_id', 'audit_id'] } as const
const REFUSED_SIGN_INS = {
  table: 'refused_sign_ins',
  key: ['company_id', 'minute', 'network', 'kind'],
} as const

/**
 * Makes the partitions of the coming months, and drops those of which every entry is older than the retention;
 * returns how many were dropped. The function in the database decides by its own clock, and keeps the trail
 * for at least 90 days.
 */
export async function maintainAuditTrail(db: Executor, retentionDays: number): Promise<number> {
  const { rows } = await sql<{ dropped: number }>`
    select maintain_audit_trail(${retentionDays}::int) as dropped`.execute(db)
  return rows[0]?.dropped ?? 0
}

/** Deletes at most `max` IP addresses and e-mails of entries from before `before`; returns how many. */
export async function pruneAuditAddressesAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, ADDRESSES, sql`occurred_at < ${before}`, max)
}

/** Deletes at most `max` sums of refused sign-ins from before `before`; returns how many. */
export async function pruneRefusedSignInsAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  return await deleteLapsed(db, REFUSED_SIGN_INS, sql`minute < ${before}`, max)
}

/** Deletes at most `max` IP addresses and e-mails of a company's entries, which stay; returns how many. */
export async function deleteAuditAddresses(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, ADDRESSES, max)
}

/** Deletes at most `max` sums of a company's refused sign-ins; returns how many. */
export async function deleteRefusedSignIns(db: Executor, companyId: string, max: number): Promise<number> {
  return await deleteOfCompany(db, companyId, REFUSED_SIGN_INS, max)
}
