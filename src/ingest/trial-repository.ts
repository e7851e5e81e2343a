import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import { codeOf } from '../database/faults.ts'

/**
 * What companies on a trial can send in a day, counted in the statement that stores their events. It reads the counter first, and
 * writes it last, so that the lock is held for a moment only: others wait for a statement that they share with a trial.
 */

/** What an event counts, of item `e`. */
const bytesOf = sql`octet_length(e.data::text) + octet_length(e.type) + octet_length(e.event_id)
  + coalesce(octet_length(e.spellings), 0)`

const MAX_INT = 2_147_483_647

interface Counting {
  limit: Limit
  now: Date
}

/** Windows do not begin with the first use, so one of 86,400 seconds is a day in UTC. In milliseconds. */
export function windowEndsAt({ windowSeconds }: Limit, now: number): number {
  const length = windowSeconds * 1000
  return (Math.floor(now / length) + 1) * length
}

/** Joined to a company of items `i` and its subscription `s`; null where the company is not on a trial. */
export const trialBytes = sql`
  left join lateral (
    select sum(${bytesOf})::bigint as bytes from item e where e.company_id = i.company_id and s.status = 'trialing'
  ) t on true`

const counterOf = (companyId: RawBuilder<unknown>) => sql`concat('trial-bytes ', ${companyId})`

/** Of counter `c`: the bytes of this window, however wrong the clock was that began the last one. */
function sentIn({ limit, now }: Counting) {
  const endsAt = windowEndsAt(limit, now.getTime())
  const latest = new Date(endsAt + limit.windowSeconds * 1000)
  return sql`(case when c.window_ends_at > ${now} and c.window_ends_at <= ${latest} then c.hits else 0 end)::bigint`
}

/** Of trial `t` of a company of items `i`. */
export function isTrialUsedUp(counting: Counting) {
  return sql`s.status = 'trialing' and t.bytes + coalesce((
    select ${sentIn(counting)} from rate_counters c where c.counter = ${counterOf(sql`i.company_id`)}
  ), 0) > ${counting.limit.max}::bigint`
}

/** Companies in `stored` are counted. The statement fails if a parallel one has left too little: see `isTrialRace`. */
export function countTrialBytes(counting: Counting) {
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

/** The counter was beyond the range of its column (numeric_value_out_of_range). Sent again, the statement sees it used up. */
export function isTrialRace(error: unknown): boolean {
  return codeOf(error) === '22003'
}
