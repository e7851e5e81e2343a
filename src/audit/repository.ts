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
export interface ShownEntry {
  id: string
  occurredAt: Date
  action: string
  outcome: string
  actor: string | null
  subject: string | null
  details: Record<string, unknown> | null
  sessionId: string | null
  ipAddress: string | null
}

/** Which entries; those of all kinds, actors and times by default. `from` is the first moment, `to` the one after the last. */
export interface Filter {
  action?: string | undefined
  actor?: string | undefined
  from?: Date | undefined
  to?: Date | undefined
}

/** Where the list goes on: after the entry of this time and id. */
export interface Place {
  occurredAt: Date
  id: string
}

/** The newest entries of a company first, at most `max`. */
export async function listEntries(
  db: Executor,
  companyId: string,
  { action, actor, from, to, after, max }: Filter & { after?: Place | undefined; max: number },
): Promise<ShownEntry[]> {
  const conditions = [
    sql`e.company_id = ${companyId}`,
    ...(action === undefined ? [] : [sql`e.action = ${action}`]),
    ...(actor === undefined ? [] : [sql`e.actor = ${actor}`]),
    ...(from === undefined ? [] : [sql`e.occurred_at >= ${from}`]),
    ...(to === undefined ? [] : [sql`e.occurred_at < ${to}`]),
    ...(after === undefined
      ? []
      : [sql`(e.occurred_at, e.audit_id) < (${after.occurredAt}::timestamptz, ${after.id}::uuid)`]),
  ]
  const { rows } = await sql<ShownEntry>`
    select e.audit_id as id, e.occurred_at as "occurredAt", e.action, e.outcome, e.actor,
      coalesce(e.subject, a.email) as subject, e.details, e.session_id as "sessionId",
      a.ip_address as "ipAddress"
    from audit_events e
    left join audit_addresses a on a.company_id = e.company_id and a.audit_id = e.audit_id
    where ${sql.join(conditions, sql` and `)}
    order by e.occurred_at desc, e.audit_id desc
    limit ${max}`.execute(db)
  return rows
}

interface Day {
  /** `2026-11-20` */
  date: string
  signIns: number
  refusals: number
  changes: number
}

/** What a session does by itself, which changes nothing for others. */
const OF_SESSIONS = sql`('sign_in', 'logout', 'session_end', 'refresh', 'reauthenticate')`

/** The sums of the last `days` days in UTC, the oldest first. */
export async function countDaily(
  db: Executor,
  companyId: string,
  { now, days }: { now: Date; days: number },
): Promise<Day[]> {
  const { rows } = await sql<Day>`
    with day as (
      select generate_series(
        date_trunc('day', ${now}::timestamptz, 'UTC') - make_interval(days => ${days}::int - 1),
        date_trunc('day', ${now}::timestamptz, 'UTC'), interval '1 day') as start
    ), entry as (
      select date_trunc('day', occurred_at, 'UTC') as start,
        count(*) filter (where action = 'sign_in' and outcome = 'done') as sign_ins,
        count(*) filter (where outcome <> 'done') as refusals,
        count(*) filter (where action not in ${OF_SESSIONS} and outcome = 'done') as changes
      from audit_events
      where company_id = ${companyId} and occurred_at >= (select min(start) from day)
      group by 1
    ), refused as (
      select date_trunc('day', minute, 'UTC') as start, sum(count) as refusals from refused_sign_ins
      where company_id = ${companyId} and minute >= (select min(start) from day)
      group by 1
    )
    select to_char(d.start at time zone 'UTC', 'YYYY-MM-DD') as date, coalesce(e.sign_ins, 0)::int as "signIns",
      (coalesce(e.refusals, 0) + coalesce(r.refusals, 0))::int as refusals, coalesce(e.changes, 0)::int as changes
    from day d left join entry e using (start) left join refused r using (start)
    order by d.start`.execute(db)
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
