import { setTimeout as sleep } from 'node:timers/promises'
import { createMailServer, type ReceivedMail } from '../../scripts/kit/mail-server.ts'
import { findPlace } from '../../scripts/kit/places.ts'
import { normalizeEmail } from '../../src/http/email-address.ts'
import { whenDone } from './cleanup.ts'

/** A real SMTP server on loopback, and the emails that it has received. */

type MailboxOptions = Partial<Pick<Parameters<typeof createMailServer>[0], 'onMessage' | 'refusals'>>

const MAX_WAIT_MS = 100_000

export type Mailbox = Awaited<ReturnType<typeof startMailbox>>['mailbox']

export async function openMailbox(options: MailboxOptions = {}): Promise<Mailbox> {
  const { mailbox, stop } = await startMailbox(options)
  whenDone(stop)
  return mailbox
}

export async function startMailbox({ onMessage, refusals = {} }: MailboxOptions = {}) {
  const mails: ReceivedMail[] = []
  const taken = new Set<ReceivedMail>()
  const place = await findPlace()
  const server = createMailServer({
    ...place,
    refusals,
    async onMessage(mail) {
      await onMessage?.(mail)
      // The server library decodes domains, which are ASCII on the wire.
      mails.push({ ...mail, recipients: mail.recipients.map(normalizeEmail) })
    },
  })
  await server.start()

  const mailsTo = (address: string) => mails.filter(({ recipients }) => recipients.includes(address))

  /** Waits for the next email to an address with these words in its subject. Returns each email once. */
  async function mailTo(address: string, subject = ''): Promise<ReceivedMail> {
    for (const until = performance.now() + MAX_WAIT_MS; performance.now() < until; await sleep(20)) {
      const found = mailsTo(address).find((mail) => !taken.has(mail) && mail.email.subject?.includes(subject))
      if (found) {
        taken.add(found)
        return found
      }
    }
    throw new Error(`no mail to ${address} came${subject && `, called ${subject}`}`)
  }

  return { mailbox: { ...server, mails, mailsTo, mailTo }, stop: server.stop }
}
