import { type RawBuilder, sql } from 'kysely'
import { Problem } from '../errors.ts'

/** The order of the storing transactions, in which events and audit entries are read. See migrations/0017-event-feed.ts. */

/** The lowest position that a running or future transaction can have. All rows before it are visible. */
export const END_OF_FEED: RawBuilder<string> = sql`(
  select position_offset + pg_snapshot_xmin(pg_current_snapshot())::text::bigint from event_feed)`

/** A bigint as decimal text. */
export const POSITION = /^(?:0|[1-9]\d{0,17})$/

/** For a restored dump, whose positions mean nothing yet: see is_feed_settled() in migrations/0026-restored-in-place.ts. */
export function unsettled(): Problem {
  return new Problem(
    'unavailable',
    'The database was restored from a backup. Retry after an operator has run `admin restored`.',
    { retryAfterSeconds: 10 },
  )
}
