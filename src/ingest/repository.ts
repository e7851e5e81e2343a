import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { codeOf, isUniqueViolation } from '../database/faults.ts'
import type { KeptObject } from '../http/strict-json.ts'
import { listing } from './watch-repository.ts'

/** Stores events: one row per company and event id, never changed. */

export interface EventItem {
  companyId: string
  secretVersion: number
  eventId: string
  type: string
  occurredAt: string | null
  receivedAt: Date
  data: KeptObject
}

/**
 * `unseen`: a concurrent transaction stored the id, so retry. `unauthorized` includes suspended companies. `watched`: nothing
 * was stored, so store it with `isListing`.
 */
export type EventOutcome =
  | 'stored'
  | 'duplicate'
  | 'conflict'
  | 'unseen'
  | 'unauthorized'
  | 'subscription_inactive'
  | 'feature_missing'
  | 'trial_used_up'
  | 'watched'

const eventTable = itemTable<EventItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  secret_version: ['int', ({ secretVersion }) => secretVersion],
  event_id: ['text', ({ eventId }) => eventId],
  type: ['text', ({ type }) => type],
  // Text, because Postgres keeps microseconds and a Date doesn't.
  occurred_text: ['text', ({ occurredAt }) => occurredAt],
  received_at: ['timestamptz', ({ receivedAt }) => receivedAt],
  data: ['json', ({ data }) => data.text],
  spellings: ['text', ({ data }) => data.spellings],
})

interface Terms {
  trialLimit: Limit
  /** For companies that someone watches: see watch-repository.ts. */
  isListing: boolean
}

/** One outcome per item, in order, of different events. Rows go in key order, so that statements never deadlock. */
export async function storeEvents(
  db: Executor,
  items: EventItem[],
  terms: Terms,
  // An error would end the caller's transaction.
  ifTaken = db.isTransaction ? skipIfTaken : failIfTaken,
): Promise<EventOutcome[]> {
  try {
    return await store(db, items, { ...terms, outcome, ifTaken })
  } catch (error) {
    if (db.isTransaction || !(isUniqueViolation(error) || isTrialRace(error))) throw error
  }
  return await storeEvents(db, items, terms, skipIfTaken)
}

/** Null, with nothing stored, if an event is neither new nor a duplicate, or a concurrent transaction stores it. */
export async function storeAllEvents(
  db: Executor,
  items: EventItem[],
  terms: Terms,
): Promise<EventOutcome[] | null> {
  try {
    return await store(db, items, { ...terms, outcome: duplicateOrFailure, ifTaken: failIfTaken })
  } catch (error) {
    if (codeOf(error) === INVALID_TEXT || isUniqueViolation(error) || isTrialRace(error)) return null
    throw error
  }
}

// If a concurrent transaction stores an event, the statement fails, which Postgres logs, and is retried with
// `skipIfTaken`. Always skipping would cost a fifth of the work per row.
const failIfTaken = sql``
const skipIfTaken = sql`on conflict do nothing`

async function store(
  db: Executor,
  items: EventItem[],
  {
    trialLimit,
    outcome,
    ifTaken,
    isListing,
  }: Terms & { outcome: RawBuilder<unknown>; ifTaken: RawBuilder<unknown> },
) {
  const now = new Date(Math.max(...items.map(({ receivedAt }) => receivedAt.getTime())))
  const counting = { limit: trialLimit, now }
  const { rows } = await sql<{ ord: number; outcome: EventOutcome }>`
    with item as (select i.*, occurred_text::timestamptz as occurred_at from ${eventTable(items)}), permitted as (${permitted(counting, isListing)}), stored as (
      insert into events (company_id, event_id, type, occurred_at, received_at, data, spellings, feed_position)
      select i.company_id, i.event_id, i.type, i.occurred_at, i.received_at, i.data, i.spellings, (select next_feed_position())
      from item i join permitted p using (company_id, secret_version)
      where p.refusal is null
        and not exists (select from events e where e.company_id = i.company_id and e.event_id = i.event_id)
      order by i.company_id, i.event_id
      ${ifTaken}
      returning company_id, event_id
    ), counted as (${countTrialBytes(counting)})${isListing ? listing : sql``}
    select i.ord::int, ${outcome} as outcome
    from item i
    left join permitted p using (company_id, secret_version)
    where (select count(*) from stored) < ${items.length}::int
      and not exists (select from stored n where n.company_id = i.company_id and n.event_id = i.event_id)`.execute(
    db,
  )
  const outcomes: EventOutcome[] = items.map(() => 'stored')
  for (const { ord, outcome } of rows) outcomes[ord - 1] = outcome
  return outcomes
}

const permitted = (counting: Counting, isListing: boolean) => sql`
  select i.company_id, i.secret_version, t.bytes as trial_bytes,
    case
      when v.version is distinct from i.secret_version or c.status <> 'active' then 'unauthorized'
      when s.status in ('canceled', 'suspended') then 'subscription_inactive'
      when not 'event_ingest' = any(p.features) then 'feature_missing'
      when ${isTrialUsedUp(counting)} then 'trial_used_up'
      ${isListing ? sql`` : sql`when s.watched_until > ${counting.now} then 'watched'`}
    end as refusal
  from (select distinct company_id, secret_version from item) i
  left join signing_secrets v on v.company_id = i.company_id
  join companies c on c.company_id = i.company_id
  join subscriptions s on s.company_id = i.company_id
  join plans p on p.plan = s.plan
  ${trialBytes}`

// Both are spelled as JSON.stringify would, so equal data differ at most in key order. Cheap tests come first: otherwise
// small events with the ids of large ones could make Postgres parse megabytes.
const hasSameData = sql`
  case
    -- A value takes at most its text and four bytes. Its size is known without fetching or decompressing it.
    when pg_column_size(e.data) > octet_length(i.data::text) + 4 then false
    when octet_length(e.data::text) <> octet_length(i.data::text) then false
    when e.data::text = i.data::text then true
    else e.data::jsonb = i.data::jsonb
  end`

const outcome = sql`
  case
    when p.company_id is null then 'unauthorized'
    when p.refusal is not null then p.refusal
    else coalesce((
      select case
        when e.type = i.type and e.occurred_at is not distinct from i.occurred_at and ${hasSameData} then 'duplicate'
        else 'conflict'
      end from events e where e.company_id = i.company_id and e.event_id = i.event_id
    ), 'unseen')
  end`

const INVALID_TEXT = '22P02'
/** Any other outcome fails the statement, in words that Postgres logs. */
const duplicateOrFailure = sql`
  case ${outcome} when 'duplicate' then 'duplicate' when 'watched' then 'watched'
    else (case when i.ord > 0 then 'an event of a request cannot be stored, so none of them is' end)::int::text
  end`

// The storing statement counts the bytes of a trial per day. It reads the counter first and writes it last, so that
// the lock is short: other companies share the statement.

const bytesOf = sql`octet_length(e.data::text) + octet_length(e.type) + octet_length(e.event_id)
  + coalesce(octet_length(e.spellings), 0)`

const MAX_INT = 2_147_483_647

interface Counting {
  limit: Limit
  now: Date
}

/** In milliseconds. Windows start at multiples of their length, so 86,400 seconds are a day in UTC. */
export function windowEndsAt({ windowSeconds }: Limit, now: number): number {
  const length = windowSeconds * 1000
  return (Math.floor(now / length) + 1) * length
}

/** Null unless the company of item `i`, with subscription `s`, is on a trial. */
const trialBytes = sql`
  left join lateral (
    select sum(${bytesOf})::bigint as bytes from item e where e.company_id = i.company_id and s.status = 'trialing'
  ) t on true`

const counterOf = (companyId: RawBuilder<unknown>) => sql`concat('trial-bytes ', ${companyId})`

/** Bytes in this window, even if a wrong clock began the last one. */
function sentIn({ limit, now }: Counting) {
  const endsAt = windowEndsAt(limit, now.getTime())
  const latest = new Date(endsAt + limit.windowSeconds * 1000)
  return sql`(case when c.window_ends_at > ${now} and c.window_ends_at <= ${latest} then c.hits else 0 end)::bigint`
}

function isTrialUsedUp(counting: Counting) {
  return sql`s.status = 'trialing' and t.bytes + coalesce((
    select ${sentIn(counting)} from rate_counters c where c.counter = ${counterOf(sql`i.company_id`)}
  ), 0) > ${counting.limit.max}::bigint`
}

/** Overflows the counter, and so fails, if a concurrent statement has left too little: see `isTrialRace`. */
function countTrialBytes(counting: Counting) {
  const { limit, now } = counting
  const endsAt = new Date(windowEndsAt(limit, now.getTime()))
  const sent = sql`${sentIn(counting)} + excluded.hits`
  return sql`
    insert into rate_counters as c (counter, hits, window_ends_at)
    select ${counterOf(sql`p.company_id`)}, least(p.trial_bytes, ${MAX_INT})::int, ${endsAt}::timestamptz
    from permitted p join (select distinct company_id from stored) n on n.company_id = p.company_id
    where p.trial_bytes is not null and p.refusal is null
    order by 1
    on conflict (counter) do update set window_ends_at = excluded.window_ends_at,
      hits = (case when ${sent} <= ${limit.max}::bigint then least(${sent}, ${MAX_INT}) else ${MAX_INT}::bigint + 1 end)::int`
}

/** The counter overflowed (numeric_value_out_of_range). A retry sees that the trial is exhausted. */
export function isTrialRace(error: unknown): boolean {
  return codeOf(error) === '22003'
}
