import { Type } from '@sinclair/typebox'
import { invalidField, type Problem } from '../errors.ts'
import { ID } from '../system.ts'

const MAX_ROWS = 100
const DEFAULT_ROWS = 50

export const pageQuery = {
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: MAX_ROWS,
      default: DEFAULT_ROWS,
      description: 'Maximum number of entries',
      examples: [20],
    }),
  ),
  cursor: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description: '`nextCursor` of the previous page; without it, the first page is returned',
      examples: ['WyJBZGEiLCIwMTg5MGE1ZCJd'],
    }),
  ),
}

export const NextCursor = Type.Union([Type.String(), Type.Null()], {
  description: '`cursor` of the next page; null on the last page',
  examples: ['WyJBZGEiLCIwMTg5MGE1ZCJd'],
})

/** `after` is the position of the previous page's last row. @throws Problem invalid_request */
export async function readPage<Row>(
  { limit: size = DEFAULT_ROWS, cursor }: { limit?: number; cursor?: string },
  positionOf: (row: Row) => string[],
  list: (page: { after: string[] | undefined; max: number }) => Promise<Row[]>,
): Promise<{ rows: Row[]; nextCursor: string | null }> {
  const rows = await list({ after: cursor === undefined ? undefined : decode(cursor), max: size + 1 })
  const last = rows[size - 1]
  const hasMore = rows.length > size && last !== undefined
  const nextCursor = hasMore ? Buffer.from(JSON.stringify(positionOf(last))).toString('base64url') : null
  return { rows: rows.slice(0, size), nextCursor }
}

function decode(cursor: string): string[] {
  try {
    const position: unknown = JSON.parse(Buffer.from(cursor, 'base64url').toString())
    if (Array.isArray(position) && position.every((one) => typeof one === 'string' && !one.includes('\0')))
      return position
  } catch {} // It is not JSON.
  throw invalidCursor()
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** The pattern refuses years that Postgres does not have. @throws Problem invalid_request */
export function toTimeAndId([time = '', id = '']: string[]): { time: Date; id: string } {
  const read = new Date(time)
  if (!TIME.test(time) || Number.isNaN(read.getTime()) || !ID.test(id)) throw invalidCursor()
  return { time: read, id }
}

export function invalidCursor(): Problem {
  const detail = 'The cursor does not belong to this list. Start with the first page.'
  return invalidField('querystring/cursor', 'must be the "nextCursor" of a page', detail)
}
