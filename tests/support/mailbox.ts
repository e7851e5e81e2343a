import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer } from 'smtp-server'
import { whenDone } from './cleanup.ts'
import { findPlace } from './places.ts'

/** A real SMTP server on loopback, and the mails that it has received. */

export interface ReceivedMail {
  /** The recipients of the envelope, which alone decide where the mail goes. */
  recipients: string[]
  raw: string
  email: Email
  /** The token of its link; empty without one. */
  token: string
}

interface MailboxOptions {
  /** Called with each message before it is accepted. An error with a `responseCode` refuses the message. */
  onMessage?: (mail: ReceivedMail) => Promise<void> | void
  /** The refusals by recipient; all other recipients are accepted. */
  refusals?: Record<string, [code: number, text: string]>
}

const MAX_WAIT_MS = 100_000

export async function openMailbox({ onMessage, refusals = {} }: MailboxOptions = {}) {
  const mails: ReceivedMail[] = []
  const taken = new Set<ReceivedMail>()
  const place = await findPlace()
  let server: SMTPServer | undefined

  async function start(): Promise<void> {
    server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['AUTH', 'STARTTLS'],
      logger: false,
      closeTimeout: 100,
      onRcptTo({ address }, _session, callback) {
        const [responseCode, text] = refusals[address] ?? []
        if (text === undefined) callback()
        else callback(Object.assign(new Error(text), { responseCode }))
      },
      onData(stream, session, callback) {
        const chunks: Buffer[] = []
        stream.on('data', (chunk: Buffer) => chunks.push(chunk))
        stream.on('end', async () => {
          const raw = Buffer.concat(chunks).toString()
          const email = await PostalMime.parse(raw)
          const [, token = ''] = /#token=([^\s&]+)/.exec(email.text ?? '') ?? []
          const recipients = session.envelope.rcptTo.map(({ address }) => address)
          const mail = { recipients, raw, email, token }
          try {
            await onMessage?.(mail)
            mails.push(mail)
            callback()
          } catch (error) {
            callback(error as Error)
          }
        })
      },
    })
    server.on('error', () => {})
    await once(server.listen(place.port, place.host), 'listening')
  }

  async function stop(): Promise<void> {
    const closing = server
    server = undefined
    await new Promise<void>((resolve) => (closing ? closing.close(() => resolve()) : resolve()))
  }

  await start()
  whenDone(stop)

  /** Waits for the next mail to an e-mail, with these words in its subject; returns each mail once. */
  async function mailTo(address: string, subject = ''): Promise<ReceivedMail> {
    for (const until = performance.now() + MAX_WAIT_MS; performance.now() < until; await sleep(20)) {
      const found = mails.find(
        (mail) =>
          !taken.has(mail) && mail.recipients.includes(address) && mail.email.subject?.includes(subject),
      )
      if (found) {
        taken.add(found)
        return found
      }
    }
    throw new Error(`no mail to ${address} came${subject && `, called ${subject}`}`)
  }

  return { url: `smtp://${place.host}:${place.port}`, mails, mailTo, start, stop }
}
