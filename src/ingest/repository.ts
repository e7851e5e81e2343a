import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import { itemTable } from '../database/columns.ts'
import type { Executor } from '../database/connect.ts'
import { codeOf, isUniqueViolation } from '../database/faults.ts'
import type { KeptObject } from '../http/strict-json.ts'
import { countTrialBytes, isTrialRace, isTrialUsedUp, trialBytes } from './trial-repository.ts'

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

/** `unseen`: another transaction stored the id meanwhile, so try again. `unauthorized`: also if suspended. */
export type EventOutcome =
  | 'stored'
  | 'duplicate'
  | 'conflict'
  | 'unseen'
  | 'unauthorized'
  | 'subscription_inactive'
  | 'feature_missing'
  | 'trial_used_up'

const eventTable = itemTable<EventItem>({
  company_id: ['uuid', ({ companyId }) => companyId],
  secret_version: ['int', ({ secretVersion }) => secretVersion],
  event_id: ['text', ({ eventId }) => eventId],
  type: ['text', ({ type }) => type],
  // Postgres parses it, since it keeps microseconds.
  occurred_text: ['text', ({ occurredAt }) => occurredAt],
  received_at: ['timestamptz', ({ receivedAt }) => receivedAt],
  data: ['json', ({ data }) => data.text],
  spellings: ['text', ({ data }) => data.spellings],
})

/**
 * One outcome per item, in order; items must be of different events. The statement also confirms that the company can
 * send events. Rows go in key order, so that statements never deadlock.
 */
export async function storeEvents(
  db: Executor,
  items: EventItem[],
  trialLimit: Limit,
  // An error would end a transaction of the caller.
  ifTaken = db.isTransaction ? skipIfTaken : failIfTaken,
): Promise<EventOutcome[]> {
  try {
    return await store(db, items, trialLimit, outcome, ifTaken)
  } catch (error) {
    if (db.isTransaction || !(isUniqueViolation(error) || isTrialRace(error))) throw error
  }
  return await storeEvents(db, items, trialLimit, skipIfTaken)
}

/** Fails, and returns null, if an event is neither new nor a duplicate, or is being stored by another transaction. */
export async function storeAllEvents(
  db: Executor,
  items: EventItem[],
  trialLimit: Limit,
): Promise<EventOutcome[] | null> {
  try {
    return await store(db, items, trialLimit, duplicateOrFailure, failIfTaken)
  } catch (error) {
    if (codeOf(error) === INVALID_TEXT || isUniqueViolation(error) || isTrialRace(error)) return null
    throw error
  }
}

/**
 * Where another transaction stores the event meanwhile: the statement fails, which Postgres logs, and is sent again ready to skip.
 * To be ready always would cost a fifth of each row that is stored.
 */
const failIfTaken = sql``
const skipIfTaken = sql`on conflict do nothing`

async function store(
  db: Executor,
  items: EventItem[],
  trialLimit: Limit,
  outcome: RawBuilder<unknown>,
  ifTaken: RawBuilder<unknown>,
) {
  const now = new Date(Math.max(...items.map(({ receivedAt }) => receivedAt.getTime())))
  const counting = { limit: trialLimit, now }
  const { rows } = await sql<{ ord: number; outcome: EventOutcome }>`
    with item as (select i.*, occurred_text::timestamptz as occurred_at from ${eventTable(items)}), permitted as (${permitted(counting)}), stored as (
      insert into events (company_id, event_id, type, occurred_at, received_at, data, spellings, feed_position)
      select i.company_id, i.event_id, i.type, i.occurred_at, i.received_at, i.data, i.spellings, (select next_feed_position())
      from item i join permitted p using (company_id, secret_version)
      where p.refusal is null
        and not exists (select from events e where e.company_id = i.company_id and e.event_id = i.event_id)
      order by i.company_id, i.event_id
      ${ifTaken}
      returning company_id, event_id
    ), counted as (${countTrialBytes(counting)})
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

const permitted = (counting: Parameters<typeof isTrialUsedUp>[0]) => sql`
  select i.company_id, i.secret_version, t.bytes as trial_bytes,
    case
      when v.version is distinct from i.secret_version or c.status <> 'active' then 'unauthorized'
      when s.status in ('canceled', 'suspended') then 'subscription_inactive'
      when not 'event_ingest' = any(p.features) then 'feature_missing'
      when ${isTrialUsedUp(counting)} then 'trial_used_up'
    end as refusal
  from (select distinct company_id, secret_version from item) i
  left join signing_secrets v on v.company_id = i.company_id
  join companies c on c.company_id = i.company_id
  join subscriptions s on s.company_id = i.company_id
  join plans p on p.plan = s.plan
  ${trialBytes}`

// Both are written as JSON.stringify writes them, so equal data differ at most in the order of names. Cheap tests come first: few
// bytes with the ids of large events could otherwise make Postgres parse megabytes.
const hasSameData = sql`
  case
    -- A value takes at most its text and four bytes. This does not fetch it, nor decompress it.
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
/** Fails at other outcomes, in words that Postgres logs. */
const duplicateOrFailure = sql`
  case ${outcome} when 'duplicate' then 'duplicate'
    else (case when i.ord > 0 then 'an event of a request cannot be stored, so none of them is' end)::int::text
  end`
