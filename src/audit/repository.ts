import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { AuditEntry } from './entry.ts'
import { auditOne } from './fragments.ts'

/** Appends an entry to the audit trail. A trigger refuses changes to existing entries. */
export async function appendAudit(db: Executor, companyId: string, entry: AuditEntry): Promise<void> {
  await auditOne(companyId, entry).execute(db)
}

/** Removes an e-mail from what is stored beside the trail of its company. */
export async function forgetEmail(db: Executor, companyId: string, email: string): Promise<void> {
  await sql`
    with forgotten as (
      update audit_addresses set email = null where company_id = ${companyId} and email = ${email}
    )
    update refused_sign_ins set last_email = '' where company_id = ${companyId} and last_email = ${email}`.execute(
    db,
  )
}

/** An entry as it is shown. `ipAddress` and an e-mail as `subject` are null once they are too old. */
interface ShownEntry {
  id: string
  occurredAt: Date
  action: string
  outcome: string
  actor: string | null
  subject: string | null
  details: unknown
  sessionId: string | null
  ipAddress: string | null
}

/** The newest entries of a company first. */
export async function listEntries(db: Executor, companyId: string, limit: number): Promise<ShownEntry[]> {
  const { rows } = await sql<ShownEntry>`
    select e.audit_id as id, e.occurred_at as "occurredAt", e.action, e.outcome, e.actor,
      coalesce(e.subject, a.email) as subject, e.details, e.session_id as "sessionId",
      a.ip_address as "ipAddress"
    from audit_events e
    left join audit_addresses a on a.company_id = e.company_id and a.audit_id = e.audit_id
    where e.company_id = ${companyId}
    order by e.occurred_at desc, e.audit_id desc
    limit ${limit}`.execute(db)
  return rows
}

/** Refused sign-ins of one minute, network and kind. */
interface RefusedSignIns {
  minute: Date
  network: string
  kind: string
  count: number
  lastEmail: string
}

/** The newest refused sign-ins of a company first. */
export async function listRefusedSignIns(
  db: Executor,
  companyId: string,
  limit: number,
): Promise<RefusedSignIns[]> {
  return await db
    .selectFrom('refused_sign_ins')
    .select(['minute', 'network', 'kind', 'count', 'last_email as lastEmail'])
    .where('company_id', '=', companyId)
    .orderBy('minute', 'desc')
    .orderBy('network')
    .limit(limit)
    .execute()
}
