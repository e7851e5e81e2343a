import { sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import { isUsedUp } from '../limits/counters-repository.ts'
import { hasEnded } from './session-fragments.ts'

/** The verdict on a refresh token, as SQL over `l`, the locked session with the request's columns, and `a`, its account. */

export interface RotationPolicy {
  ttlSeconds: number
  raceSeconds: number
  graceSeconds: number
  idempotencyWindowSeconds: number
  limit: Limit
}

/**
 * - repeated: the token was used before, and this client receives the same successor again
 * - conflict: the key was used with an earlier token of the session
 * - raced: the token was used a moment ago, or this is a late retry of that use; the session stays live
 * - reused: the token was used longer ago; the session ends
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

const rotations = { age: sql`l.window_age`, uses: sql`l.window_rotations` }

const isCurrent = sql`l.token_generation = l.generation`
const isPredecessor = sql`l.token_generation = l.generation - 1`

/** Key and time of the rotation that used the token; null without a key, or if too many rotations followed. */
const rotationsSince = sql`(l.generation - 1 - l.token_generation)`
const keyOfUse = sql`l.recent_keys[cardinality(l.recent_keys) - ${rotationsSince}]`
const timeOfUse = sql`l.recent_spent_at[cardinality(l.recent_spent_at) - ${rotationsSince}]`

/** A key names one rotation; with a different token it is a client error. */
const keyIsTaken = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = any(l.recent_keys) and l.age < ${idempotencyWindowSeconds})`

/** The client lost the response and repeats the request. */
const isRetry = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = ${keyOfUse} and l.age < ${idempotencyWindowSeconds})`

/** The same for a client that sends no keys, if the configuration allows it. */
const isWithinGrace = ({ graceSeconds }: RotationPolicy) =>
  sql`(l.key is null and ${keyOfUse} is null and l.age < ${graceSeconds})`

/** Used less than `raceSeconds` ago, or while this statement waited for the lock: in its snapshot the token is current. */
const isStraggler = ({ raceSeconds }: RotationPolicy) =>
  sql`(l.age < ${raceSeconds} or l.token_generation = (
    select seen.generation from sessions seen
    where seen.company_id = l.company_id and seen.session_id = l.session_id
  ))`

/** A retry that arrives after other attempts of the same client, by any number of generations. A thief lacks the key. */
const isLateRetry = ({ idempotencyWindowSeconds }: RotationPolicy) =>
  sql`(l.key = ${keyOfUse} and l.db_now < ${timeOfUse} + make_interval(secs => ${idempotencyWindowSeconds}))`

/**
 * The generation that a re-authentication starts from: the current one, or the previous one for a retry, which has the key of
 * the last rotation. If a refresh used that key, `auth_time` and `issued_at` differ, and it is a conflict.
 */
export const generationOfProof = ({ idempotencyWindowSeconds }: RotationPolicy) => sql`
  s.generation - coalesce(i.key = s.recent_keys[cardinality(s.recent_keys)]
    and s.auth_time = s.issued_at and s.rotated_at > i.db_now - make_interval(secs => ${idempotencyWindowSeconds}), false)::int`

function unlimited(policy: RotationPolicy) {
  return sql`case
    when ${hasEnded('l', 'a', sql`l.now`)} then 'ended'
    when ${isCurrent} and ${keyIsTaken(policy)} then 'conflict'
    when ${isCurrent} then 'rotated'
    when ${isPredecessor} and (${isRetry(policy)} or ${isWithinGrace(policy)}) then 'repeated'
    when (${isPredecessor} and ${isStraggler(policy)}) or (l.token_generation < l.generation and ${isLateRetry(policy)})
      then 'raced'
    when l.token_generation < l.generation then 'reused'
    else 'unknown'
  end`
}

/** Verdicts that consume a use of the session's limit. */
export const isCounted = (name: string) => sql`${sql.ref(name)} in ('rotated', 'repeated', 'raced')`

export function verdict(policy: RotationPolicy) {
  return sql`
    select case
      when ${isCounted('u.verdict')} and ${isUsedUp(policy.limit, rotations)} then 'limited' else u.verdict
    end as verdict
    from (select ${unlimited(policy)} as verdict) u`
}
