import { type RawBuilder, sql } from 'kysely'

const condition = sql<boolean>

/**
 * A session stores the epochs of its user, company, and password, so one write to an epoch ends all older sessions. A replaced
 * password can work for a while, by the database's clock, because the clocks of instances differ.
 */

/** A session with a later epoch than its account was changed after the snapshot of the statement, so it is live. */
const isOver = (epoch: 'user_epoch' | 'company_epoch', s: string, a: string) =>
  sql`${sql.ref(`${s}.${epoch}`)} < ${sql.ref(`${a}.${epoch}`)}`

/** Whether the password of that epoch no longer works. `a` has the columns of users. */
export function isPasswordOver(own: RawBuilder<unknown>, a: string) {
  const epoch = sql.ref(`${a}.password_epoch`)
  return condition`(${own} < ${epoch}
    and (${own} < ${epoch} - 1 or coalesce(${sql.ref(`${a}.former_password_until`)} <= clock_timestamp(), true)))`
}

const isOfOverPassword = (s: string, a: string) => isPasswordOver(sql.ref(`${s}.password_epoch`), a)

export function isOfThisEpoch(s: string, a: string) {
  return condition`(not (${isOver('user_epoch', s, a)}) and not (${isOver('company_epoch', s, a)})
    and not ${isOfOverPassword(s, a)})`
}

/**
 * When the session ends without use. Its row has the limits of the service's configuration. Those of its company are read each
 * time, so that a change applies to existing sessions. Service accounts have none. `after` selects columns of a later state.
 */
export function endsAt(s: string, a: string, after: '' | 'new_' = '') {
  const [expiresAt, issuedAt] = [sql.ref(`${s}.${after}expires_at`), sql.ref(`${s}.${after}issued_at`)]
  const [idle, maxAge] = [sql.ref(`${a}.session_idle_seconds`), sql.ref(`${a}.session_max_age_seconds`)]
  return sql<Date>`least(${expiresAt}, case ${sql.ref(`${a}.user_kind`)} when 'person' then least(
    ${issuedAt} + make_interval(secs => ${idle}), ${sql.ref(`${s}.created_at`)} + make_interval(secs => ${maxAge})) end)`
}

/** Null unless a statement has ended the session. Ignores expiry. */
export function endReason(s: string, a: string) {
  return sql`coalesce(
    ${sql.ref(`${s}.end_reason`)},
    case when ${isOver('user_epoch', s, a)} then ${sql.ref(`${a}.user_epoch_reason`)} end,
    case when ${isOver('company_epoch', s, a)} then ${sql.ref(`${a}.company_epoch_reason`)} end,
    case when ${isOfOverPassword(s, a)} then 'password_reset' end
  )`
}

/** Also true if its user or company is inactive. */
export function hasEnded(s: string, a: string, now: RawBuilder<unknown>) {
  return condition`(${sql.ref(`${s}.ended_at`)} is not null or ${endsAt(s, a)} <= ${now}
    or not ${isOfThisEpoch(s, a)}
    or ${sql.ref(`${a}.user_status`)} <> 'active' or ${sql.ref(`${a}.company_status`)} <> 'active')`
}

/** Avoids `ended_at`: for a session ID, the planner could choose the index of live sessions, and read all of the company's. */
export function isNotEnded(s: string) {
  return condition`${sql.ref(`${s}.end_reason`)} is null`
}

export interface KnownClient {
  kind: 'network' | 'device'
  digest: Buffer
}

/** When one member's known clients expire (RFC 3339), by `keyOf`. Null if there are none. */
export type KnownUntil = Record<string, string> | null

/** Per member and kind. A new client replaces the oldest of its kind. */
const MAX_KNOWN = 20

/** All known clients of user `u`: digests depend on the company, which a handle reveals only in the same statement. */
export const knownUntilColumn = sql`
  (select json_object_agg(k.kind || ' ' || encode(k.digest, 'hex'), k.known_until) from known_clients k
    where k.company_id = u.company_id and k.user_id = u.user_id) as "knownUntil"`

/** Common table expressions that make clients known: the rows of `learnt` (company_id, user_id, kind, digest, known_until). */
export const learning = sql`learning as (
    insert into known_clients (company_id, user_id, kind, digest, known_until)
    select company_id, user_id, kind, digest, known_until from learnt
    on conflict (company_id, user_id, kind, digest) do update set known_until = excluded.known_until
  ), forgetting as (
    delete from known_clients k using (
      select k.company_id, k.user_id, k.kind, k.digest, m.count,
        row_number() over (partition by k.company_id, k.user_id, k.kind order by k.known_until desc) as position
      from (select company_id, user_id, kind, count(*) from learnt group by company_id, user_id, kind) m
      join known_clients k on k.company_id = m.company_id and k.user_id = m.user_id and k.kind = m.kind
      where not exists (
        select from learnt l
        where l.company_id = k.company_id and l.user_id = k.user_id and l.kind = k.kind and l.digest = k.digest
      )
    ) f
    where f.position > ${MAX_KNOWN} - f.count and k.company_id = f.company_id and k.user_id = f.user_id
      and k.kind = f.kind and k.digest = f.digest
  )`
