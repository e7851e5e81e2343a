import { type RawBuilder, sql } from 'kysely'
import type { Executor, Tx } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { NIL_ID } from '../system.ts'

/** Deletes rows by age or by company, in bounded statements, so that locks are short. Functions return how many. */

const BATCH = 1_000

type Column<Name extends keyof Database> = keyof Database[Name] & string

const KEYS = {
  events: ['company_id', 'event_id'],
  sessions: ['company_id', 'session_id'],
  known_clients: ['company_id', 'user_id', 'kind', 'digest'],
  // Not the primary key: all statements lock a company's tokens in the order of their hashes.
  one_time_tokens: ['company_id', 'token_hash'],
  invitations: ['company_id', 'invitation_id'],
  mail_outbox: ['company_id', 'mail_id'],
  audit_addresses: ['company_id', 'audit_id'],
  audit_days: ['company_id', 'day', 'action', 'outcome', 'part'],
  refused_sign_ins: ['company_id', 'minute', 'network', 'kind'],
  service_sign_ins: ['company_id', 'minute', 'user_id', 'network'],
  refused_requests: ['company_id', 'minute', 'reason', 'network'],
  watched_events: ['company_id', 'position'],
  second_factors: ['company_id', 'factor_id'],
  second_factor_challenges: ['company_id', 'user_id', 'challenge_hash'],
  recovery_codes: ['company_id', 'user_id', 'digest'],
  mailbox_codes: ['company_id', 'user_id'],
  used_passkey_challenges: ['challenge_hash'],
  former_signing_secrets: ['company_id'],
  signing_secrets: ['company_id'],
  users: ['company_id', 'user_id'],
  company_handles: ['handle'],
  rate_counters: ['counter'],
} satisfies { [Name in keyof Database]?: Column<Name>[] }

type Table = keyof typeof KEYS

export type Lapse = {
  [Name in Table]: {
    table: Name
    /** Of several columns, the first that is set. */
    since: Column<Name> | readonly Column<Name>[]
    unless?: Column<Name>
  }
}[Table]

export async function deleteLapsedAcrossCompanies(
  db: Executor,
  { table, since, unless }: Lapse,
  before: Date,
  signal?: AbortSignal,
): Promise<number> {
  const endedAt = typeof since === 'string' ? sql.ref(since) : sql`coalesce(${listOf(since)})`
  const isNeeded = unless === undefined ? sql`false` : sql`${sql.ref(unless)} is not null`
  const locked = sql`
    select ${listOf(KEYS[table])} from ${sql.table(table)} where ${endedAt} < ${before} and not ${isNeeded}
    limit ${BATCH} for update skip locked`
  return await deleteRepeatedly(db, table, locked, signal)
}

/** Locks rows in key order, so that two statements never deadlock. */
export async function deleteOfCompany(
  db: Executor,
  companyId: string,
  table: Exclude<Table, 'used_passkey_challenges' | 'company_handles' | 'rate_counters'>,
  signal?: AbortSignal,
): Promise<number> {
  const key = listOf(KEYS[table])
  // In the order of the table's index, so that batches do not sort all remaining rows.
  const order = table === 'events' ? sql`company_id, event_id using ~<~` : key
  const locked = sql`
    select ${key} from ${sql.table(table)} where company_id = ${companyId} order by ${order} limit ${BATCH} for update`
  return await deleteRepeatedly(db, table, locked, signal)
}

async function deleteRepeatedly(
  db: Executor,
  table: Table,
  locked: RawBuilder<unknown>,
  signal: AbortSignal | undefined,
): Promise<number> {
  const areSame = KEYS[table].map((column) => sql`t.${sql.ref(column)} = l.${sql.ref(column)}`)
  let deleted = 0
  for (let last = BATCH; last === BATCH && !signal?.aborted; deleted += last) {
    const { numAffectedRows = 0n } = await sql`
      with locked as (${locked})
      delete from ${sql.table(table)} t using locked l where ${sql.join(areSame, sql` and `)}`.execute(db)
    last = Number(numAffectedRows)
  }
  return deleted
}

function listOf(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(column)))
}

const SESSIONS = 5_000

/** Superseded sessions of service accounts are deleted early: a fleet that does not keep its sessions adds one per sign-in. */
const headStart = sql`case
  when end_reason = 'superseded' and (
    select kind from users u where u.company_id = s.company_id and u.user_id = s.user_id
  ) = 'service' then interval '29 days'
  else interval '0' end`

/** Reads all sessions in key order, because an index on their end would slow down each refresh. */
export async function deleteSessionsAcrossCompanies(
  db: Executor,
  before: Date,
  signal?: AbortSignal,
): Promise<number> {
  let [last, deleted] = [{ companyId: NIL_ID, sessionId: NIL_ID, read: SESSIONS }, 0]
  while (last.read === SESSIONS && !signal?.aborted) {
    const { rows } = await sql<typeof last & { deleted: number }>`
      with page as (
        select company_id, session_id, least(ended_at, expires_at) - ${headStart} as since from sessions s
        where (company_id, session_id) > (${last.companyId}::uuid, ${last.sessionId}::uuid)
        order by company_id, session_id limit ${SESSIONS}
      ), locked as (
        select s.company_id, s.session_id from page p
        join sessions s on s.company_id = p.company_id and s.session_id = p.session_id
        where p.since < ${before}
        order by s.company_id, s.session_id for update of s skip locked
      ), gone as (
        delete from sessions s using locked l
        where s.company_id = l.company_id and s.session_id = l.session_id returning 1
      )
      select company_id as "companyId", session_id as "sessionId",
        (select count(*)::int from page) as read, (select count(*)::int from gone) as deleted
      from page order by company_id desc, session_id desc limit 1`.execute(db)
    if (!rows[0]) break
    last = rows[0]
    deleted += rows[0].deleted
  }
  return deleted
}

const EVENTS = 5_000

/** Deletes in feed order, up to the first event that is too new, and notes the last one for cursors. */
export async function deleteEventsAcrossCompanies(
  db: Executor,
  before: Date,
  signal?: AbortSignal,
): Promise<number> {
  let deleted = 0
  for (let last = 1; last > 0 && !signal?.aborted; deleted += last) {
    // The first statement starts over, for rows that were locked before. The others skip what is already deleted.
    const start = deleted === 0 ? sql`1` : sql`(select greatest(1, deleted_position) from event_feed)`
    const { numAffectedRows = 0n } = await sql`
      with feed as (select from event_feed for update skip locked), old as (
        -- Stored before there were positions. With equal positions, the index is in the order of storage.
        select row_id, received_at < ${before} as is_due
        from feed cross join lateral (
          select ctid as row_id, received_at from events where feed_position = 0 limit ${EVENTS} for update skip locked
        ) e
      ), front as (
        select row_id, company_id, event_id, feed_position, bool_and(received_at < ${before}) over (
          order by feed_position, company_id, event_id collate "C" rows unbounded preceding
        ) as is_due
        from feed cross join lateral (
          select ctid as row_id, company_id, event_id, received_at, feed_position from events
          where not exists (select from old) and feed_position >= ${start} and feed_position <= (
            select max(feed_position) from (
              select feed_position from events where feed_position >= ${start} order by feed_position limit ${EVENTS}
            ) first
          )
          for update skip locked
        ) e
      ), noted as (
        update event_feed f set deleted_position = l.feed_position, deleted_company_id = l.company_id,
          deleted_event_id = l.event_id
        from (
          select * from front where is_due
          order by feed_position desc, company_id desc, event_id collate "C" desc limit 1
        ) l
        where (f.deleted_position, f.deleted_company_id, f.deleted_event_id collate "C") < (l.feed_position, l.company_id, l.event_id)
      )
      -- Locked rows stay where they are. Their keys would be read all over their index.
      delete from events where ctid = any(array(
        select row_id from old where is_due union all select row_id from front where is_due
      ))`.execute(db)
    last = Number(numAffectedRows)
  }
  return deleted
}

/** Only while no instance runs. */
export async function deleteAllAcrossCompanies(tx: Tx, table: Table): Promise<number> {
  const { numDeletedRows } = await tx.deleteFrom(table).executeTakeFirst()
  return Number(numDeletedRows)
}

export async function deleteUnsentMailsAcrossCompanies(tx: Tx): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom('mail_outbox')
    .where('sent_at', 'is', null)
    .where('failed_at', 'is', null)
    .executeTakeFirst()
  return Number(numDeletedRows)
}

export async function maintainAuditTrail(db: Executor, retentionDays: number): Promise<number> {
  // It also adds the partitions of the next months. Its clock is the database's, and it keeps at least 90 days.
  const { dropped } = await db
    .selectNoFrom(({ fn, val }) => fn<number>('maintain_audit_trail', [val(retentionDays)]).as('dropped'))
    .executeTakeFirstOrThrow()
  return dropped
}

/** After this, new events follow all events that readers have seen, and belong to this cluster. */
export async function beginEventEra(tx: Tx): Promise<void> {
  // Transactions that store events commit before this, or wait and use the new era.
  await sql`lock table events in share mode`.execute(tx)
  await sql`select begin_event_era(timeline) from event_feed`.execute(tx)
}
