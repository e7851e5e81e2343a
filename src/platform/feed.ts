import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from 'prom-client'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { withSpellings } from '../http/json-parts.ts'
import { showStored } from '../http/metrics.ts'
import { ID, NIL_ID } from '../system.ts'
import type { EventPosition, FeedEvent } from './feed-repository.ts'
import * as repository from './feed-repository.ts'

/**
 * Events as they were ingested, in one order, from any cursor on. Readers share nothing: a cursor is the position of an event,
 * never that of a snapshot, so it means the same at each time and on each instance.
 */

const MAX_BYTES = 8 * 1024 * 1024
const TICK_MS = 400
const MAX_WAITING = 100

const BEGINNING: EventPosition = { position: repository.OLD, companyId: NIL_ID, eventId: '' }

interface Asked {
  after: string | undefined
  limit: number
  /** For the first event, if there is none. */
  waitSeconds: number
  /** Aborts when nobody waits for the answer any more. */
  signal: AbortSignal
  /** Called after a wait, before anything is read or told. @throws where the reader may not read any more */
  confirm(): Promise<void>
}

export interface FeedPage {
  events: FeedEvent[]
  /** The cursor for the page that follows; null while there was never an event. */
  next: string | null
  /** Nothing more can be given yet. */
  isCaughtUp: boolean
}

export type Feed = ReturnType<typeof createFeed>

export function createFeed({ db }: Pick<Context, 'db'>) {
  const arrivals = createArrivals(db)

  async function readPage(cursor: Cursor | undefined, maxEvents: number): Promise<FeedPage> {
    const after = cursor?.after ?? BEGINNING
    const page = { maxEvents, maxBytes: MAX_BYTES }
    const isOld = after.position === repository.OLD
    const old = isOld ? await repository.readOldEventsAcrossCompanies(db, after, page) : null
    const { events, isLast } = old ?? (await repository.readEventsAcrossCompanies(db, after, page))
    // After the events: what was deleted before they were read counts.
    const { feedId, isSettled, ...deleted } = await repository.readFeedState(db)
    if (!isSettled) throw unsettled()
    if (cursor && cursor.feedId !== feedId) throw invalidCursor()
    if (cursor && isBefore(after, deleted)) throw expired(encode({ feedId, after: deleted }))
    const end = old?.reached ?? events.at(-1) ?? (isBefore(after, deleted) ? deleted : after)
    const next = end === BEGINNING ? null : encode({ feedId, after: end })
    return { events, next, isCaughtUp: !old && isLast }
  }

  return {
    /** @throws Problem invalid_request, cursor_expired, unavailable */
    async read({ after, limit, waitSeconds, signal, confirm }: Asked): Promise<FeedPage> {
      const cursor = after === undefined ? undefined : decode(after)
      const page = await readPage(cursor, limit)
      if (page.events.length > 0 || !page.isCaughtUp || waitSeconds === 0) return page
      const hasArrived = await arrivals.wait(cursor?.after.position, waitSeconds * 1000, signal)
      if (!signal.aborted) await confirm()
      return hasArrived ? await readPage(cursor, limit) : page
    },
    /** From now on nobody waits. */
    drain: arrivals.drain,
  }
}

/** One statement for all who wait, a few times a second. */
function createArrivals(db: Context['db']) {
  const waiting = new Set<{ after: bigint; resolve(hasArrived: boolean): void }>()
  const draining = new AbortController()
  let isLooking = false

  async function look(): Promise<void> {
    if (isLooking) return
    isLooking = true
    while (waiting.size > 0) {
      await sleep(TICK_MS)
      // A failure is told by the next request.
      const newest = await repository.findNewestPosition(db).catch(() => null)
      for (const one of waiting) {
        if (newest === null || BigInt(newest) <= one.after) continue
        waiting.delete(one)
        one.resolve(true)
      }
    }
    isLooking = false
  }

  return {
    /** Whether there is an event behind the position. Immediately if too many wait. */
    async wait(position: string | undefined, ms: number, signal: AbortSignal): Promise<boolean> {
      const ended = AbortSignal.any([signal, draining.signal, AbortSignal.timeout(ms)])
      if (ended.aborted || waiting.size >= MAX_WAITING) return false
      const { promise, resolve } = Promise.withResolvers<boolean>()
      const one = { after: BigInt(position ?? -1), resolve }
      ended.addEventListener('abort', () => resolve(false))
      waiting.add(one)
      void look()
      return await promise.finally(() => waiting.delete(one))
    },
    drain: () => draining.abort(),
  }
}

interface Cursor {
  feedId: string
  after: EventPosition
}

function encode({ feedId, after: { position, companyId, eventId } }: Cursor): string {
  return Buffer.from(JSON.stringify([feedId, position, companyId, eventId])).toString('base64url')
}

const POSITION = /^(?:0|[1-9]\d{0,17})$/
const EVENT_ID = /^[A-Za-z0-9_.-]{0,160}$/

/** @throws Problem invalid_request */
function decode(text: string): Cursor {
  try {
    const read: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const parts = Array.isArray(read) ? read : []
    const [feedId = '', position = '', companyId = '', eventId = ''] = parts.map(String)
    const cursor = { feedId, after: { position, companyId, eventId } }
    const isOne = ID.test(feedId) && POSITION.test(position) && ID.test(companyId) && EVENT_ID.test(eventId)
    // No other spelling of it.
    if (isOne && encode(cursor) === text) return cursor
  } catch {
    // It is no JSON.
  }
  throw invalidCursor()
}

/** In the order of the feed. Ids are ASCII, so texts compare as their bytes do. */
function isBefore(one: EventPosition, other: EventPosition): boolean {
  if (one.position !== other.position) return BigInt(one.position) < BigInt(other.position)
  if (one.companyId !== other.companyId) return one.companyId < other.companyId
  return one.eventId < other.eventId
}

function invalidCursor(): Problem {
  const detail =
    'The cursor is none of this deployment; begin without one, or with the last `next` that you stored.'
  return invalidField('querystring/after', 'is not the next of a page', detail)
}

function expired(oldest: string): Problem {
  return new Problem(
    'cursor_expired',
    'Events behind this cursor were deleted, since they are older than the retention. Go on from `oldest`, with what is left.',
    { oldest },
  )
}

function unsettled(): Problem {
  return new Problem(
    'unavailable',
    'The database was restored, and its operator has not settled that yet; try again later.',
    { retryAfterSeconds: 10 },
  )
}

/** As the schema says. The data are JSON already: to parse and write them again would be most of the work. */
export function toText({ events, next, isCaughtUp }: FeedPage): string {
  return `{"events":[${events.map(toEventText).join(',')}],"next":${JSON.stringify(next)},"isCaughtUp":${isCaughtUp}}`
}

/** Ids and types have no character that JSON escapes: see ingest/schemas.ts. */
function toEventText({
  companyId,
  eventId,
  type,
  occurredAt,
  receivedAt,
  data,
  spellings,
}: FeedEvent): string {
  const occurred = occurredAt === null ? null : `"${toRfc3339(occurredAt)}"`
  return `{"companyId":"${companyId}","id":"${eventId}","type":"${type}","occurredAt":${occurred},"receivedAt":"${toRfc3339(receivedAt)}","data":${withSpellings(data, spellings)}}`
}

/**
 * To milliseconds. A `Date` in between would be a third of the work. With an offset, a sender can write times whose year in UTC is
 * 0 or 10000, which RFC 3339 cannot: then it is the nearest time that it can.
 */
function toRfc3339(time: string): string {
  if (time.endsWith('BC')) return '0001-01-01T00:00:00.000Z'
  if (time[4] !== '-') return '9999-12-31T23:59:59.999Z'
  return `${time.slice(0, 10)}T${time.slice(11, 19)}.${time.slice(20, 23).padEnd(3, '0')}Z`
}

/** Operators see by it a transaction that stays open: events that are committed wait for its end. */
export function showFeedLag(registry: Registry, { db, system }: Pick<Context, 'db' | 'system'>): void {
  const help = 'How long the oldest event has waited that is committed and that the feed cannot give yet'
  showStored(registry, 'feed_lag_seconds', help, async () => {
    const first = await repository.findFirstWaitingAcrossCompanies(db)
    return first ? Math.max(0, system.now() - first.getTime()) / 1000 : 0
  })
}
