import { sql } from 'kysely'
import { isUsedUp } from '../limits/fragments.ts'
import type { Limit } from '../limits/list.ts'

/**
 * The verdict on a refresh token, as SQL over `l`, the locked session with the columns of the request, and
 * `a`, its account. The README shows the states in its section "A session's states".
 */

export interface RotationPolicy {
  ttlSeconds: number
  raceSeconds: number
  graceSeconds: number
  idempotencyWindowSeconds: number
  limit: Limit
}

/**
 * - rotated: the session moves to the next generation
 * - repeated: the token was used before, and this client receives the same successor again
 * - ended: the session has ended, or its user or company is not active
 * - conflict: the key was used with an earlier token of the session
 * - limited: too many rotations in the window
 * - raced: the token was used a moment ago; the session stays live
 * - reused: the token was used longer ago; the session ends
 * - unknown: no such token was issued
 */
export type Verdict =
  | 'rotated'
  | 'repeated'
  | 'ended'
  | 'conflict'
  | 'limited'
  | 'raced'
  | 'reused'
  | 'unknown'

/** The window that counts the rotations of a session. */
const rotations = { age: sql`l.window_age`, uses: sql`l.window_rotations` }

const isOver = sql`(l.ended_at is not null or l.expires_at <= l.now
  or a.user_status <> 'active' or a.company_status <> 'active')`

const isCurrent = sql`l.spent = l.generation`
const isPredecessor = sql`l.spent = l.generation - 1`

/** The key of the rotation that used the predecessor; null if it had none. */
const lastKey = sql`l.recent_keys[cardinality(l.recent_keys)]`

/** A key names one rotation; with another token it is an error of the client. */
const keyIsTaken = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = any(l.recent_keys) and l.age < ${idempotencyWindowSeconds})`

/** The client that used the token repeats the request, because it lost the answer. */
const isRetry = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = ${lastKey} and l.age < ${idempotencyWindowSeconds})`

/** The same for a client without keys, if the configuration allows it. */
const isWithinGrace = ({ graceSeconds }: RotationPolicy) =>
  sql`(l.key is null and ${lastKey} is null and l.age < ${graceSeconds})`

/**
 * The token was used less than `raceSeconds` ago, or while this statement waited for the lock: its snapshot
 * still shows the token as current.
 */
const isStraggler = ({ raceSeconds }: RotationPolicy) =>
  sql`(l.age < ${raceSeconds} or l.spent = (
    select seen.generation from sessions seen
    where seen.company_id = l.company_id and seen.session_id = l.session_id
  ))`

export function verdict(policy: RotationPolicy) {
  return sql`case
    when ${isOver} then 'ended'
    when ${isCurrent} and ${keyIsTaken(policy)} then 'conflict'
    when ${isCurrent} and ${isUsedUp(policy.limit, rotations)} then 'limited'
    when ${isCurrent} then 'rotated'
    when ${isPredecessor} and (${isRetry(policy)} or ${isWithinGrace(policy)}) then 'repeated'
    when ${isPredecessor} and ${isStraggler(policy)} then 'raced'
    when l.spent < l.generation then 'reused'
    else 'unknown'
  end`
}
