import { restoreEmail } from '../company/identity-repository.ts'
import type { Tx } from '../database/connect.ts'
import { isUniqueViolation } from '../database/faults.ts'
import type { Context } from '../http/context.ts'
import type { Received } from '../limits/client.ts'
import { deleteUnsentUndos } from '../mail/repository.ts'
import {
  consumeUndo,
  deleteLaterUndos,
  deleteLinksTo,
  deleteUnsentResetsTo,
} from '../one-time-token/repository.ts'
import { countAttempt, findUndo, noSuchToken } from '../one-time-token/service.ts'
import { deleteAllOf as deleteFactorsOf } from '../second-factor/reset-repository.ts'
import { actIn } from '../session/acts.ts'
import { endUserSessions } from '../session/ending-repository.ts'
import { emailTaken } from './email-change.ts'
import { withdrawInvitationsOf } from './invitation-repository.ts'
import { listAdditions } from './repository.ts'

/**
 * The owner of a mailbox takes back what a password alone could do: the first factor, and another e-mail. They read the
 * e-mail that the account had, and so could have reset its password until the change.
 */

/** The clocks of instances differ by a minute: what was sent as long before the change counts as sent since. */
const CLOCK_SLACK_MS = 60_000

/**
 * Leaves nothing by which somebody else could get in: no password, factor, session, link, or invitation since.
 * @throws Problem invalid_request, rate_limited
 */
export async function undo(context: Context, token: string, received: Received) {
  const { db, system } = context
  const { client, now } = received
  await countAttempt(context, received)
  const found = await findUndo(context, token, now)
  const { companyId, userId, currentEmail } = found
  return await db.transaction().execute(async (tx) => {
    // In one order: mails, tokens, users, sessions.
    await deleteUnsentUndos(tx, companyId, found)
    await deleteUnsentResetsTo(tx, companyId, currentEmail)
    const undone = await consumeUndo(tx, companyId, { ...found, now: new Date(now) })
    if (!undone) throw noSuchToken()
    const { email } = undone
    const former = await restore(tx, companyId, userId, email)
    if (former === undefined) throw noSuchToken()
    // A change that had locked the member meanwhile has queued a link, which can be sent already, or was one of the e-mail.
    await deleteUnsentUndos(tx, companyId, found)
    await deleteLaterUndos(tx, companyId, found)
    if (former !== currentEmail) await deleteLinksTo(tx, companyId, former)
    await deleteFactorsOf(tx, companyId, userId)
    await endUserSessions(tx, companyId, userId, 'password_reset')
    const since = new Date(undone.madeAt.getTime() - CLOCK_SLACK_MS)
    await withdrawInvitationsOf(tx, companyId, userId, { since, now: new Date(now) })
    const { ipAddress } = client
    const { audit, mail } = actIn(tx, system, { companyId, userId }, received)
    if (former !== email)
      await mail({ kind: 'email_restored', recipient: former, data: { ipAddress, userId } })
    const data = { isPasswordVoid: true, additionsSince: since.toISOString() }
    await mail({ kind: 'password_reset', recipient: email, data })
    await audit('undo')
    const additions = await listAdditions(tx, companyId, { userId, since })
    return { companyId, userId, email, additions }
  })
}

/** @throws Problem invalid_request if another member has the e-mail by now */
async function restore(tx: Tx, companyId: string, userId: string, email: string) {
  return await restoreEmail(tx, companyId, userId, email).catch((error: unknown) => {
    if (isUniqueViolation(error)) throw emailTaken()
    throw error
  })
}
