import { setTimeout as sleep } from 'node:timers/promises'
import type { Registry } from 'prom-client'
import { POSITION, unsettled } from '../database/feed-positions.ts'
import { invalidField, Problem } from '../errors.ts'
import type { Context } from '../http/context.ts'
import { withSpellings } from '../http/json-parts.ts'
import { showStored } from '../http/metrics.ts'
import { ID, NIL_ID } from '../system.ts'
import type { EventPosition, FeedEvent } from './feed-repository.ts'
import * as repository from './feed-repository.ts'

/** Readers share no state: a cursor is an event's position, so it means the same at any time and on every instance. */

const MAX_BYTES = 8 * 1024 * 1024
const TICK_MS = 400
const MAX_WAITING = 100

const BEGINNING: EventPosition = { position: repository.OLD, companyId: NIL_ID, eventId: '' }

interface Asked {
  after: string | undefined
  limit: number
  waitSeconds: number
  signal: AbortSignal
  /** Called after a wait, before anything is read. @throws if the reader has lost access */
  confirm(): Promise<void>
}

export interface FeedPage {
  events: FeedEvent[]
  next: string | null
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
    // Read after the events, because retention can have deleted some just before.
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
    drain: arrivals.drain,
  }
}

/** One statement every 400 ms serves all waiting requests. */
function createArrivals(db: Context['db']) {
  const waiting = new Set<{ after: bigint; resolve(hasArrived: boolean): void }>()
  const draining = new AbortController()
  let isLooking = false

  async function look(): Promise<void> {
    if (isLooking) return
    isLooking = true
    while (waiting.size > 0) {
      await sleep(TICK_MS)
      // A waiting request ignores a failure; the next read reports it.
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
    /** True once there is an event after the position; false immediately if too many requests wait. */
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

const EVENT_ID = /^[A-Za-z0-9_.-]{0,160}$/

function decode(text: string): Cursor {
  try {
    const read: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const parts = Array.isArray(read) ? read : []
    const [feedId = '', position = '', companyId = '', eventId = ''] = parts.map(String)
    const cursor = { feedId, after: { position, companyId, eventId } }
    const isOne = ID.test(feedId) && POSITION.test(position) && ID.test(companyId) && EVENT_ID.test(eventId)
    // A cursor has only one spelling.
    if (isOne && encode(cursor) === text) return cursor
  } catch {
    // Not JSON.
  }
  throw invalidCursor()
}

/** Feed order. Ids are ASCII, so strings compare like bytes. */
function isBefore(one: EventPosition, other: EventPosition): boolean {
  if (one.position !== other.position) return BigInt(one.position) < BigInt(other.position)
  if (one.companyId !== other.companyId) return one.companyId < other.companyId
  return one.eventId < other.eventId
}

function invalidCursor(): Problem {
  const detail =
    'The cursor is not from this deployment. Start without a cursor, or with the last "next" that you stored.'
  return invalidField('querystring/after', 'must be the "next" of a page', detail)
}

function expired(oldest: string): Problem {
  return new Problem(
    'cursor_expired',
    'Events after this cursor were deleted because they exceeded the retention. Continue with "oldest".',
    { oldest },
  )
}

/** By hand: to parse `data`, which is already JSON, and write it again would be most of the work. */
export function toText({ events, next, isCaughtUp }: FeedPage): string {
  return `{"events":[${events.map(toEventText).join(',')}],"next":${JSON.stringify(next)},"isCaughtUp":${isCaughtUp}}`
}

/** Ids and types need no escaping: see ingest/schemas.ts. */
function toEventText({ companyId, eventId, type, occurredAt, receivedAt, data, spellings }: FeedEvent) {
  const occurred = occurredAt === null ? null : `"${toRfc3339(occurredAt)}"`
  return `{"companyId":"${companyId}","id":"${eventId}","type":"${type}","occurredAt":${occurred},"receivedAt":"${toRfc3339(receivedAt)}","data":${withSpellings(data, spellings)}}`
}

// To milliseconds, without a `Date`, which would be a third of the work. An offset can put a time into year 0 or 10000
// in UTC, which RFC 3339 can't express: it becomes the nearest time that can be.
export function toRfc3339(time: string): string {
  if (time.endsWith('BC')) return '0001-01-01T00:00:00.000Z'
  if (time[4] !== '-') return '9999-12-31T23:59:59.999Z'
  return `${time.slice(0, 10)}T${time.slice(11, 19)}.${time.slice(20, 23).padEnd(3, '0')}Z`
}

/** Reveals a transaction that stays open: committed events wait for its end. */
export function showFeedLag(registry: Registry, { db, system }: Pick<Context, 'db' | 'system'>): void {
  const help = 'Age of the oldest committed event that the feed cannot return yet'
  showStored(registry, 'feed_lag_seconds', help, async () => {
    const first = await repository.findFirstWaitingAcrossCompanies(db)
    return first ? Math.max(0, system.now() - first.getTime()) / 1000 : 0
  })
}
