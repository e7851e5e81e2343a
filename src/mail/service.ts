import type { Executor } from '../database/connect.ts'
import { widerNetworkOf } from '../edge/network.ts'
import { newId, type System } from '../system.ts'
import type { MailKind } from './letters.ts'
import type { MailData } from './notices.ts'
import { insertMail } from './repository.ts'

export interface NewMail {
  kind: MailKind
  recipient: string
  data: MailData
  /** Of a stranger who can cause such email to anyone. Networks share what the recipient gets. */
  network?: string | undefined
  now: number
}

export async function queueMail(
  db: Executor,
  system: System,
  companyId: string,
  { now, network, ...mail }: NewMail,
): Promise<string> {
  const mailId = newId(system)
  const widerNetwork = network === undefined ? null : widerNetworkOf(network)
  const queued = { ...mail, mailId, network: network ?? null, widerNetwork, createdAt: new Date(now) }
  await insertMail(db, companyId, queued)
  return mailId
}
