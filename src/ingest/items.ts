import { isDeepStrictEqual } from 'node:util'
import { Problem } from '../errors.ts'
import type { EventItem } from './repository.ts'
import type { Event } from './schemas.ts'

const MAX_NAMED_IDS = 20

export interface Sender {
  companyId: string
  secretVersion: number
  webhookId: string
}

/** Adds missing ids; `repeated` counts equal events, which are left out. @throws Problem event_id_conflict */
export function toItems(
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

/** Microseconds, as in Postgres. Date has neither these nor leap seconds, which count as the next second. */
function instantOf(time: string | undefined): number | null {
  const [, minute, seconds, offset] = /^(.{16}):([\d.]+)(.+)$/.exec(time?.toUpperCase() ?? '') ?? []
  return minute ? Date.parse(minute + offset) * 1000 + Math.round(Number(seconds) * 1e6) : null
}

export function eventIdConflict(ids: string[], what: string): Problem {
  const named = ids.slice(0, MAX_NAMED_IDS).join(', ')
  const more = ids.length > MAX_NAMED_IDS ? ` and ${ids.length - MAX_NAMED_IDS} more` : ''
  return new Problem('event_id_conflict', `Nothing was stored: the event ids ${named}${more} ${what}.`)
}
