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

export interface NewMail {
  kind: MailKind
  recipient: string
  data: MailData
  /** Of a stranger who can cause such mail to any e-mail. Networks take turns. */
  network?: string | undefined
  now: number
}

/** Queues a mail in the transaction of its event. It is sent after the commit. */
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

/** Call it first in a transaction, so that no token appears for these mails, and `forgetNotices` later. */
export const forgetRecipient = deleteMailsTo

/** What was queued since `forgetRecipient`, by a transaction that had locked the user. */
export const forgetNotices = deleteNoticesTo

export const forgetLaterUndos = deleteUnsentUndos

export const forgetInvitations = deleteInvitationMails
