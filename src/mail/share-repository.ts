import { type RawBuilder, sql, type Transaction } from 'kysely'
import type { Executor } from '../database/connect.ts'
import type { Database } from '../database/schema.ts'
import { consumeUnreserved, endIfUsedUp, lockCounter, refundUse } from '../limits/fragments.ts'
import type { Limit } from '../limits/list.ts'
import { counterOf } from '../limits/subject.ts'
import type { DueMail } from './repository.ts'

/**
 * Mail that others than the recipient can cause, in any company: a recipient gets so many an hour, in turns. In a turn,
 * each network that asked has one mail, and each IPv6 /48 has four. What has to wait keeps its turn, so that one
 * network with many mails does not go before another with its first.
 */

/** How many mails of an IPv6 /48 have the same turn: a /48 has four times the limit of a /64. */
const OF_WIDER_NETWORK = 4
/** How far the mails that are earlier are counted, as a multiple of the limit: a mail waits for a day at most. */
const MAX_WINDOWS = 24

/** Not counted yet and not failed, in the form of the index. */
const isWaiting = sql`(coalesce(counted_at, failed_at) is null)`

interface Share {
  limit: Limit
  now: Date
}

export interface Decision {
  isCounted: boolean
  /** When the recipient can get more; null if the limit is not used up. */
  freeAt: Date | null
  /** How many mails to the recipient wait for an earlier turn. */
  earlier: number
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
      select mail_id, network, wider_network, turn from mail_outbox
      where company_id = ${companyId} and mail_id = ${mailId} and attempts = ${attempts}
        and sent_at is null and failed_at is null
    ), place as (
      select mail_id, coalesce(turn, greatest(0, ${turnOf(ofRecipient)})) as turn from taken t
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

/** Gives the place back of a mail that was counted at `now` and is not sent. */
export async function refundMail(db: Executor, recipient: string, { limit, now }: Share): Promise<void> {
  await refundUse(limit, { counter: counterOf({ limit, values: [recipient] }), now }).execute(db)
}

/**
 * The turn of a new mail `t`, as the greatest of: the present turn, the one after the last mail of its network, and the
 * one after the turn that its /48 has filled.
 */
function turnOf(ofRecipient: RawBuilder<unknown>) {
  const ofWiderNetwork = sql`${ofRecipient} and m.wider_network = t.wider_network and m.turn is not null`
  return sql`
    coalesce(
      (select turn from mail_outbox where ${ofRecipient} and ${isWaiting} and turn is not null order by turn limit 1),
      (select turn from mail_outbox where ${ofRecipient} and not ${isWaiting} and turn is not null
        order by turn desc limit 1)),
    (select m.turn + 1 from mail_outbox m where ${ofWiderNetwork} and m.network = t.network order by m.turn desc limit 1),
    (select m.turn + 1 from mail_outbox m where ${ofWiderNetwork} order by m.turn desc offset ${OF_WIDER_NETWORK - 1} limit 1)`
}

/** Makes the next mails of a recipient due. They waited for earlier ones, which were deleted in the meantime. */
export async function wakeNextAcrossCompanies(
  db: Executor,
  recipient: string,
  { limit, now }: Share,
): Promise<void> {
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

/** The `last_error` of a mail that waits, or failed because it waited too long. */
export const WAITED = 'the recipient has had as many mails as others can cause'
