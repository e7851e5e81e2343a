import type { Static } from '@sinclair/typebox'
import { type RawBuilder, sql } from 'kysely'
import type { Executor } from '../database/connect.ts'
import { ID } from '../system.ts'
import type { AuditEntry, SignInRefusal } from './entry.ts'
import { auditOne } from './fragments.ts'
import type { DailyReply } from './schemas.ts'

/** A trigger refuses changes to existing entries. */
export async function appendAudit(db: Executor, companyId: string, entry: AuditEntry): Promise<void> {
  await auditOne(companyId, entry).execute(db)
}

export async function forgetEmail(db: Executor, companyId: string, email: string): Promise<void> {
  await sql`
    with forgotten as (
      update audit_addresses set email = null where company_id = ${companyId} and email = ${email}
    )
    update refused_sign_ins set last_email = ''
    where company_id = ${companyId} and last_email = ${email}`.execute(db)
}

/** `ipAddress`, and a `subject` that is an email, become null when they are too old. */
export interface TrailEntry {
  id: string
  occurredAt: Date
  action: string
  outcome: string
  actor: string | null
  subject: string | null
  details: Record<string, unknown> | null
  sessionId: string | null
  ipAddress: string | null
  reason: SignInRefusal | null
  count: number | null
}

/** `from` is inclusive, `to` exclusive. */
export interface Filter {
  action?: string | undefined
  actor?: string | undefined
  outcome?: string | undefined
  /** An ID, or an email. */
  subject?: string | undefined
  from?: Date | undefined
  to?: Date | undefined
}

export interface Position {
  time: Date
  id: string
}

interface Page extends Filter {
  after?: Position | undefined
  max: number
}

export interface Person {
  userId: string | null
  email: string
}

export const shownEntry = sql`e.audit_id as id, e.occurred_at as "occurredAt", e.action, e.outcome, e.actor,
  coalesce(e.subject, a.email) as subject, e.details, e.session_id as "sessionId", a.ip_address as "ipAddress"`

export const entriesWithAddresses = sql`audit_events e
  left join audit_addresses a on a.company_id = e.company_id and a.audit_id = e.audit_id`

const entriesAbout = (companyId: string, email: string) => sql`
  (select * from audit_addresses where company_id = ${companyId} and email = ${email}) a
  -- The limit makes the planner start from the email.
  cross join lateral (
    select * from audit_events e
    where e.company_id = a.company_id and e.occurred_at = a.occurred_at and e.audit_id = a.audit_id limit 1
  ) e`

function ifGiven<Value>(value: Value | undefined, condition: (value: Value) => RawBuilder<unknown>) {
  return value === undefined ? sql`true` : condition(value)
}

/** Without refused sign-ins. */
export async function listEntries(
  db: Executor,
  companyId: string,
  { person, max }: { person?: Person | undefined; max: number },
) {
  const isAbout = ifGiven(
    person,
    ({ userId, email }) => sql`(e.actor = ${userId} or e.subject = ${userId} or a.email = ${email})`,
  )
  const { rows } = await sql<Omit<TrailEntry, 'reason' | 'count'>>`
    select ${shownEntry} from ${entriesWithAddresses}
    where e.company_id = ${companyId} and ${isAbout}
    order by e.occurred_at desc, e.audit_id desc
    limit ${max}`.execute(db)
  return rows
}

/** A UUIDv7 (RFC 9562, section 5.7) of the key of row `r` and the time of its minute. */
export const refusedId = sql`(
  lpad(to_hex((extract(epoch from r.minute) * 1000)::bigint), 12, '0') || '7' ||
  overlay(left(encode(sha256(convert_to(concat_ws(' ', r.company_id, r.network, r.kind), 'UTF8')), 'hex'), 19)
    placing '8' from 4 for 1))::uuid`

/** Nobody was authenticated, so the member is the subject. */
export const refusedEntry = sql`${refusedId} as id, r.minute as "occurredAt", 'sign_in' as action, 'refused' as outcome,
  null as actor, r.user_id::text as subject, null::json as details, null::uuid as "sessionId", r.ip_address as "ipAddress",
  coalesce(r.reason, 'refused') as reason, r.count`

export const serviceEntry = sql`s.audit_id as id, s.minute as "occurredAt", 'sign_in' as action, 'done' as outcome,
  s.user_id::text as actor, null as subject,
  case when s.superseded > 0 then json_build_object('superseded', s.superseded) end as details,
  null::uuid as "sessionId", s.ip_address as "ipAddress", null as reason, s.count`

export async function listTrail(
  db: Executor,
  companyId: string,
  { action, actor, outcome, subject, from, to, after, max }: Page,
): Promise<TrailEntry[]> {
  const within = (time: RawBuilder<unknown>, id: RawBuilder<unknown>) => {
    const isAfter = ifGiven(after, (last) => {
      const position = sql`(${last.time}::timestamptz, ${last.id}::uuid)`
      // Also by time only, because no index of summed sign-ins has the ids.
      return sql`(${time}, ${id}) < ${position} and ${time} <= ${last.time}`
    })
    const isSince = ifGiven(from, (first) => sql`${time} >= ${first}`)
    return sql`${isSince} and ${ifGiven(to, (end) => sql`${time} < ${end}`)} and ${isAfter}`
  }
  const subjectId = subject !== undefined && ID.test(subject) ? subject : undefined
  const email = subject === subjectId ? undefined : subject
  const isRefusal = outcome !== undefined && outcome !== 'done'
  // Only the indexes by outcome and by subject have this collation, so the planner cannot choose the others.
  const order = subjectId !== undefined || isRefusal ? sql` collate "C"` : sql``
  const isEqual = (column: string, value: string | undefined) =>
    ifGiven(value, (one) => sql`${sql.ref(`e.${column}`)}${order} = ${one}`)
  // The index by outcome is partial.
  const isNotDone = isRefusal && subjectId === undefined ? sql`e.outcome <> 'done'` : sql`true`
  const areSignIns = (action ?? 'sign_in') === 'sign_in'
  const areRefused = (outcome ?? 'refused') === 'refused' && actor === undefined && email === undefined
  const areOfServices = (outcome ?? 'done') === 'done' && actor !== 'operator' && subject === undefined
  const member = actor === 'operator' ? undefined : actor
  const { rows } = await sql<TrailEntry>`
    (select ${shownEntry}, null as reason, null::int as count
    from ${email === undefined ? entriesWithAddresses : entriesAbout(companyId, email)}
    where e.company_id = ${companyId} and ${isEqual('action', action)} and ${isEqual('actor', actor)}
      and ${isEqual('outcome', outcome)} and ${isNotDone} and ${isEqual('subject', subjectId)}
      and ${within(sql`e.occurred_at`, sql`e.audit_id`)}
    order by e.occurred_at desc, e.audit_id desc limit ${max})
    union all
    (select ${refusedEntry} from refused_sign_ins r
    where r.company_id = ${companyId} and ${areSignIns && areRefused ? sql`true` : sql`false`}
      and ${ifGiven(subjectId, (id) => sql`r.user_id = ${id}::uuid`)} and ${within(sql`r.minute`, refusedId)}
    order by r.minute desc, 1 desc limit ${max})
    union all
    (select ${serviceEntry} from service_sign_ins s
    where s.company_id = ${companyId} and ${areSignIns && areOfServices ? sql`true` : sql`false`}
      and ${ifGiven(member, (one) => sql`s.user_id = ${one}::uuid`)} and ${within(sql`s.minute`, sql`s.audit_id`)}
    order by s.minute desc, s.audit_id desc limit ${max})
    order by "occurredAt" desc, id desc
    limit ${max}`.execute(db)
  return rows
}

/** By id. Deleted users have no name. */
export async function findNames(
  db: Executor,
  companyId: string,
  entries: Pick<TrailEntry, 'actor' | 'subject'>[],
): Promise<Record<string, string>> {
  const ids = new Set(entries.flatMap(({ actor, subject }) => [actor, subject]))
  const { rows } = await sql<{ id: string; name: string }>`
    select user_id as id, name from users
    where company_id = ${companyId} and status <> 'deleted'
      and user_id = any(${[...ids].filter((id) => id !== null && ID.test(id))}::uuid[])`.execute(db)
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]))
}

type Day = Static<typeof DailyReply>['days'][number]

/** These concern only the user's own session, or only show something. */
const NO_CHANGES = sql`('sign_in', 'logout', 'session_end', 'refresh', 'reauthenticate', 'events_watch')`

const sumOf = (which: RawBuilder<unknown>) => sql`coalesce(sum(count) filter (where ${which}), 0)::int`

export async function countDaily(
  db: Executor,
  companyId: string,
  { now, days }: { now: Date; days: number },
): Promise<Day[]> {
  const { rows } = await sql<Day>`
    with shown as (
      select (${now}::timestamptz at time zone 'UTC')::date - ago as day from generate_series(0, ${days}::int - 1) ago
    )
    select to_char(shown.day, 'YYYY-MM-DD') as date, ${sumOf(sql`action = 'sign_in' and outcome = 'done'`)} as "signIns",
      ${sumOf(sql`outcome <> 'done'`)} as refusals,
      ${sumOf(sql`action not in ${NO_CHANGES} and outcome = 'done'`)} as changes
    from shown left join audit_days on company_id = ${companyId} and audit_days.day = shown.day
    group by shown.day
    order by shown.day`.execute(db)
  return rows
}

/** For a person, also those whose last email was theirs. */
export async function listRefusedSignIns(
  db: Executor,
  companyId: string,
  { person, max }: { person?: Person | undefined; max: number },
) {
  return await db
    .selectFrom('refused_sign_ins')
    .select(['minute', 'network'])
    .select(({ fn, val }) => fn.coalesce('reason', val('refused')).as('reason'))
    .select(['count', 'user_id as userId', 'last_email as lastEmail'])
    .where('company_id', '=', companyId)
    .where((eb) =>
      // Without a user, null equals nothing. In `or({ … })`, it would mean unknown users.
      person ? eb.or([eb('user_id', '=', person.userId), eb('last_email', '=', person.email)]) : eb.lit(true),
    )
    .orderBy('minute', 'desc')
    .orderBy('network')
    .orderBy('kind')
    .limit(max)
    .execute()
}

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
