import { sql } from 'kysely'
import { isUsedUp } from '../limits/fragments.ts'
import type { Limit } from '../limits/list.ts'

/**
 * What becomes of a refresh token that was sent, as SQL over a session `l`, locked, with what was sent, and its
 * account `a`. Section "A session's states" of the README draws it.
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
 * - repeated: it had moved before, and this client can have the same successor again
 * - ended: the session has ended, or its user or company cannot sign in
 * - conflict: the key was used with an earlier token of the session
 * - limited: too many rotations in the window
 * - raced: the token was spent a moment ago; nothing happens to the session
 * - reused: the token was spent longer ago; the session ends
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

/** The window in which a session's rotations are counted. */
const rotations = { age: sql`l.window_age`, uses: sql`l.window_rotations` }

const isOver = sql`(l.ended_at is not null or l.expires_at <= l.now
  or a.user_status <> 'active' or a.company_status <> 'active')`

const isCurrent = sql`l.spent = l.generation`
const isPredecessor = sql`l.spent = l.generation - 1`

/** The key of the rotation that spent the predecessor; null if that had none. */
const lastKey = sql`l.recent_keys[cardinality(l.recent_keys)]`

/** A key names one rotation: with another token it is a mistake of the client. */
const keyIsTaken = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = any(l.recent_keys) and l.age < ${idempotencyWindowSeconds})`

/** The client that spent the token asks again, since it lost the answer. */
const isRetry = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = ${lastKey} and l.age < ${idempotencyWindowSeconds})`

/** The same from a client without keys, where the configuration allows it. */
const isWithinGrace = ({ graceSeconds }: RotationPolicy) =>
  sql`(l.key is null and ${lastKey} is null and l.age < ${graceSeconds})`

/**
 * A straggler of a race: the token was spent a moment ago, or it was not yet spent when this statement began,
 * so it was spent while we waited for the lock, however long that took.
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
