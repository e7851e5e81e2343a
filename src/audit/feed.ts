import type { Executor } from '../database/connect.ts'
import { POSITION, unsettled } from '../database/feed-positions.ts'
import { invalidField, type Problem } from '../errors.ts'
import { ID, NIL_ID } from '../system.ts'
import * as repository from './feed-repository.ts'
import {
  type FeedEntry,
  type FeedPosition,
  OPEN_MS,
  PARTS,
  type Part,
  SUM_PARTS,
  type SumPart,
} from './feed-repository.ts'

/** The trail for machines, oldest first. Readers share no state: a cursor means the same at any time and on every instance. */

interface Asked {
  after: string | undefined
  limit: number
}

/** @throws Problem invalid_request, unavailable */
export async function readAuditFeed(db: Executor, companyId: string, { after, limit }: Asked) {
  const cursor = after === undefined ? undefined : decode(after)
  const { at, transaction } = await repository.readMoment(db)
  const { feedId, from, isSettled, isPast } = await repository.readFeedState(db, transaction)
  if (!isSettled) throw unsettled()
  if (cursor && (cursor.feedId !== feedId || cursor.companyId !== companyId)) throw invalidCursor()
  const position = cursor?.position ?? beginningAt(from)
  // An end never moves back, because the clocks of two primaries differ.
  const endOf = (part: SumPart) =>
    Math.max(Number(position[part].position), isPast ? at.getTime() - OPEN_MS[part] : 0)
  const ends = { sums: endOf('sums'), lateSums: endOf('lateSums') }
  const found = await repository.readFeed(db, companyId, position, { ends, max: limit })
  const entries = inOrder(found).slice(0, limit)
  const reached = { ...position }
  for (const { part, position, id } of entries) reached[part] = { position, id }
  for (const part of SUM_PARTS) {
    const ofPart = found.filter((entry) => entry.part === part)
    // All complete minutes have been read. Otherwise each request would read them again.
    const isRead = ofPart.length < limit && ofPart.every((entry) => entries.includes(entry))
    if (isRead) reached[part] = { position: String(ends[part]), id: LAST_ID }
  }
  const next = cursor || entries.length > 0 ? encode({ feedId, companyId, position: reached }) : null
  return { entries, next, isCaughtUp: found.length < limit }
}

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

type Positions = Record<Part, FeedPosition>

function beginningAt(from: Date): Positions {
  // Just before that minute, whose sums may still be open.
  const first = { position: String(from.getTime() - 1), id: NIL_ID }
  return { entries: { position: '0', id: NIL_ID }, sums: first, lateSums: first }
}

/** By time, as far as the order within each part allows: no entry counts as older than one before it. */
function inOrder(found: FeedEntry[]): FeedEntry[] {
  const timed = PARTS.flatMap((part) => {
    let latest = 0
    const ofPart = found.filter((entry) => entry.part === part).sort(byPosition)
    return ofPart.map((entry) => {
      latest = Math.max(latest, entry.occurredAt.getTime())
      return { entry, latest }
    })
  })
  return timed.sort((one, other) => one.latest - other.latest).map(({ entry }) => entry)
}

function byPosition(one: FeedEntry, other: FeedEntry): number {
  const between = BigInt(one.position) - BigInt(other.position)
  if (between === 0n) return one.id < other.id ? -1 : 1
  return between < 0n ? -1 : 1
}

interface Cursor {
  feedId: string
  companyId: string
  position: Positions
}

function encode({ feedId, companyId, position }: Cursor): string {
  const positions = PARTS.flatMap((part) => [position[part].position, position[part].id])
  return Buffer.from(JSON.stringify([feedId, companyId, ...positions])).toString('base64url')
}

function decode(text: string): Cursor {
  try {
    const read: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const [feedId = '', companyId = '', ...rest] = (Array.isArray(read) ? read : []).map(String)
    const [entries, sums, lateSums] = PARTS.map((part, index) => toPosition(part, rest.slice(2 * index)))
    if (entries && sums && lateSums && ID.test(feedId) && ID.test(companyId)) {
      const cursor = { feedId, companyId, position: { entries, sums, lateSums } }
      // A cursor has only one spelling.
      if (encode(cursor) === text) return cursor
    }
  } catch {
    // Not JSON.
  }
  throw invalidCursor()
}

/** Milliseconds until the year 2286. Positions of transactions can be larger than any time of Postgres. */
const MINUTE = /^\d{13}$/

function toPosition(part: Part, [position = '', id = '']: string[]): FeedPosition | undefined {
  const form = part === 'entries' ? POSITION : MINUTE
  return form.test(position) && ID.test(id) ? { position, id } : undefined
}

function invalidCursor(): Problem {
  const detail =
    'The cursor is not from the audit feed of this company. Start without a cursor, or with the last "next" that you stored.'
  return invalidField('querystring/after', 'must be the "next" of a page', detail)
}
