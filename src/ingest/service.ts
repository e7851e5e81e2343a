import { isDeepStrictEqual } from 'node:util'
import { Counter } from 'prom-client'
import type { Limit } from '../config/limits.ts'
import { createBatch } from '../database/batch.ts'
import { isOutage } from '../database/faults.ts'
import { inWords, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { createAdmission } from '../limits/admission.ts'
import type { EventItem, EventOutcome } from './repository.ts'
import * as repository from './repository.ts'
import type { Event, IngestBody } from './schemas.ts'
import { invalidSignature } from './signature.ts'

/** Each event is stored once, a request is stored whole or not at all, and the response follows the commit. */

const MAX_TRIES = 5
/** In characters. Larger events get their own transaction, so that shared statements and the queue stay small. */
const MAX_SHARED_LENGTH = 8_192
const MAX_WAITING = 64
/** Large requests wait in order of arrival, not by network. */
const IN_ORDER = { network: '', isKnown: true }

export function createIngest({ db, config, measureBatch, registry }: Context) {
  const events = new Counter({
    name: 'gatehouse_events_total',
    help: 'Events of accepted requests, by outcome: accepted, or duplicate of a stored event',
    labelNames: ['outcome'],
    registers: [registry],
  })
  const trialLimit = config.limits.trialBytes
  const openBatch = (name: string, isListing: boolean) =>
    createBatch<EventItem, EventOutcome>({
      run: measureBatch(name, (items) => repository.storeEvents(db, items, { trialLimit, isListing })),
      schedule: setImmediate,
      keyOf: ({ companyId, eventId }) => `${companyId} ${eventId}`,
      maxWaiting: 2_000,
    })
  // Events of watched companies have their own batch, so that others do not wait for them.
  const [store, list] = [openBatch('events', false), openBatch('watched_events', true)]
  const storeShared = (item: EventItem) =>
    storeOrList(async (isListing) => [await (isListing ? list : store)(item)])
  // A large request takes a connection for a transaction; half of the pool stays free for other requests.
  const transactions = createAdmission({
    slots: Math.max(1, Math.floor(config.databasePoolSize / 2)),
    maxWaiting: MAX_WAITING,
    isOutage,
  })

  /** @throws Problem event_id_conflict, invalid_signature, overloaded, or the subscription's faults */
  return async (sender: Sender, body: IngestBody, now: number) => {
    const { items, repeated } = toItems(sender, body, new Date(now))
    const [only, ...others] = items
    const isShareable = only && others.length === 0 && only.data.text.length <= MAX_SHARED_LENGTH
    const outcomes = isShareable
      ? await storeOne(storeShared, only, trialLimit)
      : await transactions.run(IN_ORDER, () => storeAll(db, items, trialLimit))
    const accepted = outcomes.filter((outcome) => outcome === 'stored').length
    const duplicates = items.length - accepted + repeated
    events.inc({ outcome: 'accepted' }, accepted)
    events.inc({ outcome: 'duplicate' }, duplicates)
    return { accepted, duplicates }
  }
}

/**
 * The events are of one company. If someone watches it, the first statement stores nothing, and a second one stores and lists.
 * In one statement, the parts that list events would cost every company up to a tenth more, even while nobody watches.
 */
async function storeOrList<Outcomes extends EventOutcome[] | null>(
  store: (isListing: boolean) => Promise<Outcomes>,
): Promise<Outcomes> {
  const outcomes = await store(false)
  return outcomes?.includes('watched') ? await store(true) : outcomes
}

async function storeOne(
  store: (item: EventItem) => Promise<EventOutcome[]>,
  item: EventItem,
  trialLimit: Limit,
) {
  for (let tries = 1; ; tries += 1) {
    const outcomes = await store(item)
    if (!outcomes.includes('unseen') || tries === MAX_TRIES) {
      refuseUnlessStored([item], outcomes, trialLimit)
      return outcomes
    }
  }
}

/** If that fails, a transaction finds the event that prevents the others. A refusal rolls it back. */
async function storeAll(db: Context['db'], items: EventItem[], trialLimit: Limit) {
  const stored = await storeOrList((isListing) =>
    repository.storeAllEvents(db, items, { trialLimit, isListing }),
  )
  if (stored) return stored
  const storing = db.transaction().execute(async (tx) => {
    const store = (some: EventItem[]) =>
      storeOrList((isListing) => repository.storeEvents(tx, some, { trialLimit, isListing }))
    const outcomes = await store(items)
    for (let tries = 1; tries < MAX_TRIES; tries += 1) {
      const unseen = outcomes.flatMap((outcome, index) => (outcome === 'unseen' ? [index] : []))
      if (unseen.length === 0) break
      const waiting = items.filter((_, index) => unseen.includes(index))
      const again = await store(waiting)
      unseen.forEach((index, position) => {
        outcomes[index] = again[position] ?? 'unseen'
      })
    }
    refuseUnlessStored(items, outcomes, trialLimit)
    return outcomes
  })
  return await storing.catch((error: unknown) => {
    throw repository.isTrialRace(error) ? trialUsedUp(trialLimit, items) : error
  })
}

function refuseUnlessStored(items: EventItem[], outcomes: EventOutcome[], trialLimit: Limit): void {
  if (outcomes.includes('unauthorized')) throw invalidSignature()
  if (outcomes.includes('subscription_inactive')) {
    throw new Problem(
      'subscription_inactive',
      'The subscription is canceled or suspended. Renew it to send events.',
    )
  }
  if (outcomes.includes('feature_missing')) {
    throw new Problem(
      'feature_not_in_plan',
      'The plan does not include the feature event_ingest. Upgrade to send events.',
    )
  }
  if (outcomes.includes('trial_used_up')) throw trialUsedUp(trialLimit, items)
  const conflicts = items.filter((_, index) => outcomes[index] === 'conflict').map(({ eventId }) => eventId)
  if (conflicts.length > 0) throw eventIdConflict(conflicts, 'are already stored with different content')
  if (outcomes.includes('unseen')) {
    throw new Problem('unavailable', 'Another request is storing the same events. Retry after 1 second.', {
      retryAfterSeconds: 1,
    })
  }
}

function trialUsedUp(limit: Limit, [first]: EventItem[]): Problem {
  const now = first?.receivedAt.getTime() ?? 0
  const resetSeconds = Math.ceil((repository.windowEndsAt(limit, now) - now) / 1000)
  return new Problem(
    'rate_limited',
    `On a trial, a company can send ${limit.max.toLocaleString('en')} bytes of events per day in UTC. Nothing was stored. Retry after ${inWords(resetSeconds)}.`,
    { limit: { ...limit, remaining: 0, resetSeconds }, retryAfterSeconds: resetSeconds },
  )
}

const MAX_NAMED_IDS = 20

export interface Sender {
  companyId: string
  secretVersion: number
  webhookId: string
}

/** Adds missing ids. `repeated` counts equal events, which are left out. @throws Problem event_id_conflict */
function toItems({ companyId, secretVersion, webhookId }: Sender, body: IngestBody, receivedAt: Date) {
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
    throw eventIdConflict(conflicts, 'occur twice in this request with different content')
  const items = [...byId].map(
    ([eventId, { type, occurredAt, data }]): EventItem => ({
      companyId,
      secretVersion,
      eventId,
      type,
      occurredAt: occurredAt ?? null,
      receivedAt,
      data,
    }),
  )
  return { items, repeated }
}

function isSameEvent(one: Event, other: Event): boolean {
  return (
    one.type === other.type &&
    instantOf(one.occurredAt) === instantOf(other.occurredAt) &&
    isSameData(one.data.text, other.data.text)
  )
}

/** Equal data have equal lengths, because each value has one spelling (KeptObject). Only key order can differ. */
function isSameData(one: string, other: string): boolean {
  return (
    one === other || (one.length === other.length && isDeepStrictEqual(withDigits(one), withDigits(other)))
  )
}

const TOKEN = /"(?:[^"\\]+|\\.)*"|-?\d[\d.e+-]*/g

/** Numbers as text, because different numbers can be equal as doubles. */
function withDigits(text: string): unknown {
  return JSON.parse(
    text.replace(TOKEN, (token) => (token.startsWith('"') ? `"s${token.slice(1)}` : `"n${token}"`)),
  )
}

/** Microseconds, as in Postgres. A Date has neither these nor leap seconds, which count as the next second. */
function instantOf(time: string | null | undefined): number | null {
  const [, minute, seconds, offset] = /^(.{16}):([\d.]+)(.+)$/.exec(time?.toUpperCase() ?? '') ?? []
  return minute ? Date.parse(minute + offset) * 1000 + Math.round(Number(seconds) * 1e6) : null
}

function eventIdConflict(ids: string[], what: string): Problem {
  const named = ids.slice(0, MAX_NAMED_IDS).join(', ')
  const more = ids.length > MAX_NAMED_IDS ? ` and ${ids.length - MAX_NAMED_IDS} more` : ''
  return new Problem(
    'event_id_conflict',
    `The event IDs ${named}${more} ${what}. Nothing was stored. Give each event its own ID.`,
  )
}
