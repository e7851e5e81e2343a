import { type RawBuilder, sql } from 'kysely'

/**
 * A session has the epochs of its user, its company and its password: one write to an epoch ends all sessions of the older one.
 * A password can work for a while beside its successor. Until when, is by the clock of the database: those of instances differ.
 */

/** A session of a later epoch than its account was changed after the statement's snapshot, so it is live. */
const isOver = (epoch: 'user_epoch' | 'company_epoch', s: string, a: string) =>
  sql`${sql.ref(`${s}.${epoch}`)} < ${sql.ref(`${a}.${epoch}`)}`

/** Whether the password of that epoch is dead. `a` has the columns of users. */
export function isPasswordOver(own: RawBuilder<unknown>, a: string) {
  const epoch = sql.ref(`${a}.password_epoch`)
  return sql`(${own} < ${epoch}
    and (${own} < ${epoch} - 1 or coalesce(${sql.ref(`${a}.former_password_until`)} <= clock_timestamp(), true)))`
}

const isOfOverPassword = (s: string, a: string) => isPasswordOver(sql.ref(`${s}.password_epoch`), a)

export function isOfThisEpoch(s: string, a: string) {
  return sql`(not (${isOver('user_epoch', s, a)}) and not (${isOver('company_epoch', s, a)})
    and not ${isOfOverPassword(s, a)})`
}

/** Why a statement has ended the session; null if none has. Says nothing of expiry. */
export function endReason(s: string, a: string) {
  return sql`coalesce(
    ${sql.ref(`${s}.end_reason`)},
    case when ${isOver('user_epoch', s, a)} then ${sql.ref(`${a}.user_epoch_reason`)} end,
    case when ${isOver('company_epoch', s, a)} then ${sql.ref(`${a}.company_epoch_reason`)} end,
    case when ${isOfOverPassword(s, a)} then 'password_reset' end
  )`
}

/** Whether session `s` has ended, or its user or company is not active. */
export function hasEnded(s: string, a: string, now: RawBuilder<unknown>) {
  return sql`(${sql.ref(`${s}.ended_at`)} is not null or ${sql.ref(`${s}.expires_at`)} <= ${now}
    or not ${isOfThisEpoch(s, a)}
    or ${sql.ref(`${a}.user_status`)} <> 'active' or ${sql.ref(`${a}.company_status`)} <> 'active')`
}

/** Not by `ended_at`: the planner could take the index of live sessions for an id, and read all that the company has. */
export function isNotEnded(s: string) {
  return sql`${sql.ref(`${s}.end_reason`)} is null`
}
