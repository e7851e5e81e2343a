import { sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { counterOf } from '../limits/counters.ts'
import { consumeUnreserved, endIfUsedUp, lockCounter } from '../limits/fragments.ts'
import type { Limit } from '../limits/list.ts'
import type { DueMail } from './repository.ts'

/**
 * Mail that others than the recipient can cause, in any company: a recipient gets so many an hour, in rounds, in
 * which each network that asked has one mail, and each IPv6 /48 has four. What has to wait keeps its round, so that
 * one network with many mails does not go before another with its first.
 */

/** How many mails of an IPv6 /48 go in one round: a /48 has four times the limit of a /64. */
const OF_WIDER_NETWORK = 4

/** Not counted yet and not failed, in the form of the index. */
const isWaiting = sql`(coalesce(counted_at, failed_at) is null)`

interface Share {
  limit: Limit
  now: Date
}

interface Decision {
  isCounted: boolean
  /** When the recipient can get more; null if that is not known. */
  freeAt: Date | null
}

/**
 * Counts a mail as one that its recipient gets now, unless the limit is used up or needed for mails whose turn is
 * earlier. Undefined if the mail is gone. Parallel senders decide on one recipient one after the other: the second
 * statement sees what was decided before the lock.
 */
export async function countMail(
  tx: Transaction<Database>,
  { companyId, mailId, attempts, recipient }: DueMail,
  { limit, now }: Share,
): Promise<Decision | undefined> {
  const counter = counterOf({ limit, values: [recipient] })
  await lockCounter(counter, now).execute(tx)
  const ofRecipient = sql`recipient = ${recipient} and network is not null`
  const { rows } = await sql<Decision>`
    with taken as (
      select mail_id, created_at, network, wider_network, turn from mail_outbox
      where company_id = ${companyId} and mail_id = ${mailId} and attempts = ${attempts}
        and sent_at is null and failed_at is null
    ), place as (
      select t.mail_id, t.created_at, coalesce(t.turn, greatest(
        -- The round that is being sent, or was sent last.
        (select min(turn) from mail_outbox where ${ofRecipient} and ${isWaiting}),
        (select max(turn) from mail_outbox where ${ofRecipient} and not ${isWaiting}
          and not exists (select from mail_outbox where ${ofRecipient} and ${isWaiting} and turn is not null)),
        (select max(m.turn) + 1 from mail_outbox m
          where ${ofRecipient} and m.wider_network = t.wider_network and m.network = t.network),
        (select m.turn + 1 from mail_outbox m
          where ${ofRecipient} and m.wider_network = t.wider_network and m.turn is not null
          order by m.turn desc offset ${OF_WIDER_NETWORK - 1} limit 1),
        0)) as turn
      from taken t
    ), earlier as (
      select count(*) as mails from (
        select from mail_outbox m, place p
        where ${ofRecipient} and ${isWaiting}
          and (m.turn, m.created_at, m.mail_id) < (p.turn, p.created_at, p.mail_id)
        limit ${limit.max}
      ) m
    ), counted as (
      ${consumeUnreserved(limit, { counter, now, reserved: sql`(select mails from earlier)` })}
    )
    update mail_outbox m set turn = p.turn, counted_at = case when exists (select from counted) then ${now}::timestamptz end
    from place p
    where m.company_id = ${companyId} and m.mail_id = p.mail_id
    returning m.counted_at is not null as "isCounted", ${endIfUsedUp(limit, { counter, now })} as "freeAt"`.execute(
    tx,
  )
  return rows[0]
}

/** How many mails one statement postpones; the others are due still, so the next poll finds them. */
const MAX_POSTPONED = 1_000

/**
 * Postpones the due mails of a recipient that wait for their turn, without an attempt for each. A mail has failed if
 * it has waited since `expiredBefore`.
 */
export async function postponeWaitingAcrossCompanies(
  db: Executor,
  recipient: string,
  { now, freeAt, expiredBefore }: { now: Date; freeAt: Date; expiredBefore: Date },
): Promise<void> {
  await sql`
    with waiting as (
      select company_id, mail_id from mail_outbox
      where recipient = ${recipient} and network is not null and ${isWaiting} and turn is not null
        and next_attempt_at <= ${now} and coalesce(leased_until <= clock_timestamp(), true)
      order by turn, created_at
      limit ${MAX_POSTPONED}
      for update skip locked
    )
    update mail_outbox m set next_attempt_at = ${freeAt},
      failed_at = case when m.created_at <= ${expiredBefore} then ${now}::timestamptz end,
      last_error = ${WAITED}
    from waiting w where m.company_id = w.company_id and m.mail_id = w.mail_id`.execute(db)
}

/** The `last_error` of a mail that waits, or failed because it waited too long. */
export const WAITED = 'the recipient has had as many mails as others can cause'
