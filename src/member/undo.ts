import type { Transaction } from 'kysely'
import { actIn } from '../acts.ts'
import { restoreEmail } from '../company/identity-repository.ts'
import type { Context } from '../context.ts'
import { isUniqueViolation } from '../database/faults.ts'
import type { Database } from '../database/schema.ts'
import type { LimitState } from '../limits/list.ts'
import { byNetwork } from '../limits/subject.ts'
import { forgetLaterUndos } from '../mail/service.ts'
import { deleteLinksTo, deleteUnsentResetsTo } from '../one-time-token/repository.ts'
import { findUndo, noSuchToken } from '../one-time-token/service.ts'
import { consumeUndo, deleteLaterUndos } from '../one-time-token/undo-repository.ts'
import { deleteAllOf as deleteFactorsOf } from '../second-factor/reset-repository.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { emailTaken, type Received } from './email-change.ts'
import { withdrawInvitationsOf } from './invitation-repository.ts'

/**
 * The owner of a mailbox takes back what a password alone could do: the first factor, and another e-mail. Who followed the
 * link can read the e-mail that the account had, and so could have reset its password until the change.
 */

/** The clocks of instances differ by a minute: what was sent as long before the change counts as sent since. */
const CLOCK_SLACK_MS = 60_000

/**
 * Gives the account the e-mail back, and leaves nothing of the member's by which somebody else could get in: no password,
 * factor, session, link or invitation since. Then a link to choose a password is mailed to it.
 * @throws Problem invalid_request, rate_limited
 */
export async function undo(
  { db, system, config, counters }: Context,
  token: string,
  { client, now }: Received,
): Promise<{ companyId: string; userId: string; email: string; limit: LimitState }> {
  const limit = await counters.consume(config.limits.oneTimeTokens, byNetwork(client.network), now)
  const found = await findUndo(db, token, now)
  const { companyId, userId, currentEmail } = found
  return await db.transaction().execute(async (tx) => {
    // In one order: mails, tokens, users, sessions.
    await forgetLaterUndos(tx, companyId, found)
    await deleteUnsentResetsTo(tx, companyId, currentEmail)
    const undone = await consumeUndo(tx, companyId, { ...found, now: new Date(now) })
    if (!undone) throw noSuchToken()
    const { email } = undone
    const former = await restore(tx, companyId, userId, email)
    if (former === undefined) throw noSuchToken()
    // A change that held the member meanwhile has queued a link, which can be sent already, or was one of the e-mail.
    await forgetLaterUndos(tx, companyId, found)
    await deleteLaterUndos(tx, companyId, found)
    if (former !== currentEmail) await deleteLinksTo(tx, companyId, former)
    await deleteFactorsOf(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'password_reset')
    const since = new Date(undone.madeAt.getTime() - CLOCK_SLACK_MS)
    await withdrawInvitationsOf(tx, companyId, userId, { since, now: new Date(now) })
    const { ipAddress } = client
    const { audit, mail } = actIn(tx, system, { companyId, userId }, { client, now })
    if (former !== email)
      await mail({ kind: 'email_restored', recipient: former, data: { ipAddress, userId } })
    await mail({ kind: 'password_reset', recipient: email, data: { isPasswordVoid: true } })
    await audit('undo')
    return { companyId, userId, email, limit }
  })
}

/** @throws Problem invalid_request if another member has the e-mail by now */
async function restore(
  tx: Transaction<Database>,
  companyId: string,
  userId: string,
  email: string,
): Promise<string | undefined> {
  return await restoreEmail(tx, companyId, userId, email).catch((error: unknown) => {
    if (isUniqueViolation(error)) throw emailTaken()
    throw error
  })
}
