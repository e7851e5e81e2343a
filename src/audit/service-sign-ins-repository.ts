import { sql } from 'kysely'
import type { Executor } from '../database/connect.ts'

/** Sign-ins of service accounts, summed by minute, account and network. Each sum is one entry of the audit trail. */

/** Of a minute and account, beside one row for the rest. */
const MAX_NETWORKS = 19

/**
 * Common table expressions. `opened` has a row for each sign-in: whether it `superseded` a session, and how many sign-ins of the
 * account the statement's snapshot does not show (`unseen`), which can each have added a network. The service accounts in it are
 * locked, so no other statement waits for the sums.
 */
export function summingUpServiceSignIns(opened: string) {
  return sql`
    fleet as (
      select company_id, minute, user_id, network, count(*)::int as count, count(*) filter (where superseded)::int as superseded,
        max(unseen) as unseen, min(audit_id::text) as audit_id, (array_agg(ip_address order by created_at desc))[1] as ip_address
      from (select *, date_trunc('minute', created_at, 'UTC') as minute from ${sql.table(opened)}) o
      group by company_id, minute, user_id, network
    ), roomy as (
      select f.*, r.network is not null or (
        select count(*) from service_sign_ins k
        where k.company_id = f.company_id and k.minute = f.minute and k.user_id = f.user_id
      ) + f.unseen + row_number() over (
        partition by f.company_id, f.minute, f.user_id, r.network is null order by f.network
      ) <= ${MAX_NETWORKS} as has_room
      from fleet f
      left join service_sign_ins r
        on r.company_id = f.company_id and r.minute = f.minute and r.user_id = f.user_id and r.network = f.network
    ), summed as (
      insert into service_sign_ins as r (company_id, minute, user_id, network, audit_id, count, superseded, ip_address)
      select company_id, minute, user_id, case when has_room then network else '' end, min(audit_id)::uuid, sum(count),
        sum(superseded), min(ip_address)
      from roomy group by 1, 2, 3, 4
      on conflict (company_id, minute, user_id, network) do update set count = r.count + excluded.count,
        superseded = r.superseded + excluded.superseded, ip_address = excluded.ip_address
    )`
}

/** As an entry of the trail, of row `s`. */
export const serviceEntry = sql`s.audit_id as id, s.minute as "occurredAt", 'sign_in' as action, 'done' as outcome,
  s.user_id::text as actor, null as subject,
  case when s.superseded > 0 then json_build_object('superseded', s.superseded) end as details,
  null::uuid as "sessionId", s.ip_address as "ipAddress", null as reason, s.count`

/** The newest first; with `userId`, only of this account. */
export async function listServiceSignIns(
  db: Executor,
  companyId: string,
  { userId, max }: { userId?: string | null | undefined; max: number },
) {
  return await db
    .selectFrom('service_sign_ins')
    .select(['minute', 'user_id as userId', 'network', 'count'])
    .where('company_id', '=', companyId)
    .where((eb) => (userId === undefined ? eb.lit(true) : eb('user_id', '=', userId)))
    .orderBy('minute', 'desc')
    .orderBy('user_id')
    .orderBy('network')
    .limit(max)
    .execute()
}
