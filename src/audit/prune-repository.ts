import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/**
 * Makes the partitions of the coming months, and drops those of which every entry is older than the retention;
 * returns how many were dropped. The function of the database decides by its own clock, and holds the trail for
 * at least 90 days whatever it is called with.
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
  const { numAffectedRows = 0n } = await sql`
    with lapsed as (
      select company_id, audit_id from audit_addresses where occurred_at < ${before}
      limit ${max} for update skip locked
    )
    delete from audit_addresses a using lapsed l
    where a.company_id = l.company_id and a.audit_id = l.audit_id`.execute(db)
  return Number(numAffectedRows)
}

/** Deletes at most `max` sums of refused sign-ins from before `before`; returns how many. */
export async function pruneRefusedSignInsAcrossCompanies(
  db: Executor,
  before: Date,
  max: number,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    with lapsed as (
      select company_id, minute, network, kind from refused_sign_ins where minute < ${before}
      limit ${max} for update skip locked
    )
    delete from refused_sign_ins r using lapsed l
    where r.company_id = l.company_id and r.minute = l.minute and r.network = l.network and r.kind = l.kind`.execute(
    db,
  )
  return Number(numAffectedRows)
}

/** Deletes at most `max` IP addresses and e-mails of a company's entries, which stay; returns how many. */
export async function deleteAuditAddresses(db: Executor, companyId: string, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from audit_addresses where company_id = ${companyId} and audit_id in (
      select audit_id from audit_addresses where company_id = ${companyId} order by audit_id limit ${max}
    )`.execute(db)
  return Number(numAffectedRows)
}

/** Deletes at most `max` sums of a company's refused sign-ins; returns how many. */
export async function deleteRefusedSignIns(db: Executor, companyId: string, max: number): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    delete from refused_sign_ins where company_id = ${companyId} and (minute, network, kind) in (
      select minute, network, kind from refused_sign_ins where company_id = ${companyId}
      order by minute, network, kind limit ${max}
    )`.execute(db)
  return Number(numAffectedRows)
}
