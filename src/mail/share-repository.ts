import { type RawBuilder, sql } from 'kysely'
import type { Limit } from '../config/limits.ts'
import type { Executor, Tx } from '../database/connect.ts'
import { counterOf } from '../limits/client.ts'
import { consumeUnreserved, endIfUsedUp, lockCounter, refundUse } from '../limits/counters-repository.ts'
import type { DueMail } from './repository.ts'

/**
 * Limits the emails that strangers can cause to a recipient, in all companies. A round (column `turn`) has one email
 * per network and four per IPv6 /48. A waiting email keeps its round, so first emails go before second ones.
 */

const OF_WIDER_NETWORK = 4
/** In windows: earlier emails count for as long as an email waits (delivery.ts). */
const MAX_WINDOWS = 24

const isWaiting = sql`(coalesce(counted_at, failed_at) is null)`

interface Share {
  limit: Limit
  now: Date
}

export interface Decision {
  isCounted: boolean
  /** Null if the limit has room. */
  freeAt: Date | null
  earlier: number
}

/** Counts the email if the limit has room after earlier rounds. Undefined if the email is gone. */
export async function countMail(
  tx: Tx,
  { companyId, mailId, attempts, recipient }: DueMail,
  { limit, now }: Share,
): Promise<Decision | undefined> {
  const counter = counterOf({ limit, values: [recipient] })
  // One sender at a time decides for a recipient. The next statement sees earlier decisions.
  await lockCounter(counter, now).execute(tx)
  const ofRecipient = sql`recipient = ${recipient} and network is not null`
  const { rows } = await sql<Decision>`
    with taken as (
      select mail_id, network, wider_network, turn from mail_outbox
      where company_id = ${companyId} and mail_id = ${mailId} and attempts = ${attempts}
        and sent_at is null and failed_at is null
    ), place as (
      select mail_id, coalesce(turn, greatest(0, ${roundOf(ofRecipient)})) as turn from taken t
    ), earlier as (
      select count(*)::int as mails from (
        select from mail_outbox
        where ${ofRecipient} and ${isWaiting}
          and (turn, mail_id) < ((select turn from place), (select mail_id from place))
        order by turn, mail_id
        limit ${MAX_WINDOWS * limit.max}
      ) m
    ), counted as (
      -- If the mail is gone, the number of earlier ones is null, and nothing is counted.
      ${consumeUnreserved(limit, { counter, now, reserved: sql`(select mails from earlier where exists (select from taken))` })}
    )
    update mail_outbox m set turn = p.turn, counted_at = case when exists (select from counted) then ${now}::timestamptz end
    from place p, earlier
    where m.company_id = ${companyId} and m.mail_id = p.mail_id
    returning m.counted_at is not null as "isCounted", ${endIfUsedUp(limit, { counter, now })} as "freeAt",
      earlier.mails as earlier`.execute(tx)
  return rows[0]
}

export async function refundMail(db: Executor, recipient: string, { limit, now }: Share): Promise<void> {
  await refundUse(limit, { counter: counterOf({ limit, values: [recipient] }), now }).execute(db)
}

/** The greatest of: the current round, the next one of its network, and the next one with room for its /48. */
function roundOf(ofRecipient: RawBuilder<unknown>) {
  const ofWiderNetwork = sql`${ofRecipient} and m.wider_network = t.wider_network and m.turn is not null`
  return sql`
    coalesce(
      (select turn from mail_outbox where ${ofRecipient} and ${isWaiting} and turn is not null order by turn limit 1),
      (select turn from mail_outbox where ${ofRecipient} and not ${isWaiting} and turn is not null
        order by turn desc limit 1)),
    (select m.turn + 1 from mail_outbox m where ${ofWiderNetwork} and m.network = t.network order by m.turn desc limit 1),
    (select m.turn + 1 from mail_outbox m where ${ofWiderNetwork} order by m.turn desc offset ${OF_WIDER_NETWORK - 1} limit 1)`
}

/** For when the emails that these waited for were deleted. */
export async function wakeNextAcrossCompanies(db: Executor, recipient: string, { limit, now }: Share) {
  await sql`
    with next as (
      select company_id, mail_id from (
        select * from mail_outbox
        where recipient = ${recipient} and network is not null and ${isWaiting} and turn is not null
        order by turn, mail_id
        limit ${limit.max}
      ) m
      where next_attempt_at > ${now} and leased_until is null
    ), locked as (
      select m.company_id, m.mail_id from mail_outbox m join next using (company_id, mail_id) for update of m skip locked
    )
    update mail_outbox m set next_attempt_at = ${now}
    from locked l where m.company_id = l.company_id and m.mail_id = l.mail_id and m.leased_until is null`.execute(
    db,
  )
}

export const WAITED = 'the recipient has had as many emails as others can cause'
