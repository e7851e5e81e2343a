import { isDeepStrictEqual } from 'node:util'
import type { Kysely } from 'kysely'
import { createBatch } from '../database/batch.ts'
import type { Database } from '../database/schema.ts'
import { Problem } from '../errors.ts'
import { type EventItem, type EventOutcome, storeEvents } from './repository.ts'
import type { Event } from './schemas.ts'
import { invalidSignature } from './signature.ts'

/** Events are stored once, whole requests or nothing, and acknowledged when they are committed. */

/** An id stored by another transaction at the same time shows up on the next look; it cannot vanish again. */
const MAX_LOOKS = 5
const MAX_NAMED_IDS = 20
/**
 * A larger event gets a statement of its own, so that one that many share stays small, and so does what
 * those that wait hold in memory.
 */
const MAX_SHARED_LENGTH = 8_192

interface Sender {
  companyId: string
  secretVersion: number
  webhookId: string
}

export type Ingest = ReturnType<typeof createIngest>

export function createIngest({ db, poolSize }: { db: Kysely<Database>; poolSize: number }) {
  const store = createBatch<EventItem, EventOutcome>({
    run: (items) => storeEvents(db, items),
    schedule: setImmediate,
    keyOf: ({ companyId, eventId }) => `${companyId} ${eventId}`,
    maxWaiting: 2_000,
  })
  // Not to share a statement, but to leave connections to others: each takes one for a transaction.
  const storeWhole = createBatch<EventItem[], EventOutcome[]>({
    run: async (requests) => await Promise.all(requests.map(storeAll)),
    maxSize: 1,
    maxInFlight: Math.max(1, Math.floor(poolSize / 2)),
    maxWaiting: 64,
  })

  /**
   * Stores the events of one request; resolves when they are committed.
   * @throws Problem event_id_conflict, invalid_signature, subscription_inactive, feature_not_in_plan
   */
  async function ingest(sender: Sender, body: Event | { events: Event[] }, now: number) {
    const { items, repeated } = toItems(sender, body, new Date(now))
    const [only, ...others] = items
    const isShareable = only && others.length === 0 && only.data.length <= MAX_SHARED_LENGTH
    const outcomes = isShareable ? [await storeOne(only)] : await storeWhole(items)
    const accepted = outcomes.filter((outcome) => outcome === 'stored').length
    return { accepted, duplicates: items.length - accepted + repeated }
  }

  async function storeOne(item: EventItem): Promise<EventOutcome> {
    for (let look = 1; ; look += 1) {
      const outcome = await store(item)
      if (outcome !== 'unseen' || look === MAX_LOOKS) {
        refuseUnlessStored([item], [outcome])
        return outcome
      }
    }
  }

  /** All in one transaction, which a refusal of any one of them rolls back. */
  async function storeAll(items: EventItem[]): Promise<EventOutcome[]> {
    return await db.transaction().execute(async (tx) => {
      const outcomes = await storeEvents(tx, items)
      for (let look = 1; look < MAX_LOOKS; look += 1) {
        const unseen = outcomes.flatMap((outcome, index) => (outcome === 'unseen' ? [index] : []))
        if (unseen.length === 0) break
        const again = await storeEvents(
          tx,
          items.filter((_, index) => unseen.includes(index)),
        )
        unseen.forEach((index, position) => {
          outcomes[index] = again[position] ?? 'unseen'
        })
      }
      refuseUnlessStored(items, outcomes)
      return outcomes
    })
  }

  return { ingest }
}

/** The rows of a request, with their ids made up where it gave none; `repeated` counts equal ones left out. */
function toItems(
  { companyId, secretVersion, webhookId }: Sender,
  body: Event | { events: Event[] },
  receivedAt: Date,
) {
  const events = 'events' in body ? body.events : [body]
  const byId = new Map<string, Event>()
  const conflicts: string[] = []
  let repeated = 0
  events.forEach((event, index) => {
    const id = event.id ?? ('events' in body ? `${webhookId}.${index}` : webhookId)
    const first = byId.get(id)
    if (!first) byId.set(id, event)
    else if (isSameEvent(first, event)) repeated += 1
    else conflicts.push(id)
  })
  if (conflicts.length > 0)
    throw eventIdConflict(conflicts, 'stand twice in this request, with different content')
  const items = [...byId].map(
    ([eventId, { type, occurredAt, data }]): EventItem => ({
      companyId,
      secretVersion,
      eventId,
      type,
      occurredAt: occurredAt ?? null,
      receivedAt,
      data: JSON.stringify(data),
    }),
  )
  return { items, repeated }
}

function isSameEvent(one: Event, other: Event): boolean {
  return (
    one.type === other.type &&
    instantOf(one.occurredAt) === instantOf(other.occurredAt) &&
    isDeepStrictEqual(one.data, other.data)
  )
}

/** Microseconds, as Postgres keeps them. Date knows neither these nor a leap second, which is the one after it. */
function instantOf(time: string | undefined): number | null {
  const [, minute, seconds, offset] = /^(.{16}):([\d.]+)(.+)$/.exec(time?.toUpperCase() ?? '') ?? []
  return minute ? Date.parse(minute + offset) * 1000 + Math.round(Number(seconds) * 1e6) : null
}

function refuseUnlessStored(items: EventItem[], outcomes: EventOutcome[]): void {
  if (outcomes.includes('unauthorized')) throw invalidSignature()
  if (outcomes.includes('subscription_inactive')) {
    throw new Problem('subscription_inactive', 'The subscription is not active; renew it to send events.')
  }
  if (outcomes.includes('feature_missing')) {
    throw new Problem('feature_not_in_plan', 'The plan does not include event_ingest; a larger one does.')
  }
  const conflicts = items.filter((_, index) => outcomes[index] === 'conflict').map(({ eventId }) => eventId)
  if (conflicts.length > 0) throw eventIdConflict(conflicts, 'are stored already, with other content')
  if (outcomes.includes('unseen')) {
    throw new Problem('unavailable', 'Another request is storing the same events; try again.', {
      retryAfterSeconds: 1,
    })
  }
}

function eventIdConflict(ids: string[], what: string): Problem {
  const named = ids.slice(0, MAX_NAMED_IDS).join(', ')
  const more = ids.length > MAX_NAMED_IDS ? ` and ${ids.length - MAX_NAMED_IDS} more` : ''
  return new Problem('event_id_conflict', `Nothing was stored: the event ids ${named}${more} ${what}.`)
}
