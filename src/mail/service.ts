import type { Executor } from '../database/connect.ts'
import { newId, type System } from '../system.ts'
import type { MailData, MailKind } from './letters.ts'
import { insertMail } from './repository.ts'

/** Queues a mail in the transaction of the event that it reports; it is sent after the commit. */
export async function queueMail(
  db: Executor,
  system: System,
  companyId: string,
  { now, ...mail }: { kind: MailKind; recipient: string; data: MailData; now: number },
): Promise<void> {
  await insertMail(db, companyId, { ...mail, mailId: newId(system), createdAt: new Date(now) })
}
