import type { Executor } from '../database/connect.ts'
import { widerNetworkOf } from '../edge/network.ts'
import { newId, type System } from '../system.ts'
import type { MailData } from './letter-context.ts'
import type { MailKind } from './letters.ts'
import {
  deleteInvitationMails,
  deleteMailsTo,
  deleteNoticesTo,
  deleteUnsentUndos,
  insertMail,
} from './repository.ts'

interface NewMail {
  kind: MailKind
  /** An e-mail in its stored form. */
  recipient: string
  data: MailData
  /** The network of a stranger who can cause such mail to any e-mail. It is sent in turns between the networks. */
  network?: string
  now: number
}

/** Queues a mail in the transaction of the event that it reports; it is sent after the commit. Returns its id. */
export async function queueMail(
  db: Executor,
  system: System,
  companyId: string,
  { now, network, ...mail }: NewMail,
): Promise<string> {
  const mailId = newId(system)
  const networks =
    network === undefined
      ? { network: null, widerNetwork: null }
      : { network, widerNetwork: widerNetworkOf(network) }
  await insertMail(db, companyId, { ...mail, ...networks, mailId, createdAt: new Date(now) })
  return mailId
}

/**
 * Forgets a recipient: mails to it that wait are not sent, and none of those that were stays. Call it first of all in
 * a transaction, so that no token appears for one of these mails, and `forgetNotices` when the user is locked.
 */
export const forgetRecipient = deleteMailsTo

/** Forgets what was queued since `forgetRecipient`, by a transaction that had locked the user. */
export const forgetNotices = deleteNoticesTo

/** Forgets the links to undo a change of a user, and later ones. */
export const forgetLaterUndos = deleteUnsentUndos

/** Forgets the invitations of a recipient: one that waits is not sent. */
export const forgetInvitations = deleteInvitationMails
