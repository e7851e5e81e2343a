import { once } from 'node:events'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer } from 'smtp-server'

export interface ReceivedMail {
  clientName: string
  /** From the envelope: only these decide where the message goes. */
  recipients: string[]
  raw: string
  email: Email
  /** From its link; empty without one. */
  token: string
}

interface Options {
  host: string
  port: number
  /** Called with each message before it is accepted. An error with a `responseCode` refuses the message. */
  onMessage(mail: ReceivedMail): Promise<void> | void
  /** By recipient. Other recipients are accepted. */
  refusals?: Record<string, [code: number, text: string]>
}

interface MailServer {
  url: string
  start(): Promise<void>
  stop(): Promise<void>
}

/** Listens after `start`, and can be restarted. */
export function createMailServer({ host, port, onMessage, refusals = {} }: Options): MailServer {
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
          try {
            await onMessage({ clientName: session.hostNameAppearsAs, recipients, raw, email, token })
            callback()
          } catch (error) {
            callback(error as Error)
          }
        })
      },
    })
    server.on('error', () => {})
    await once(server.listen(port, host), 'listening')
  }

  async function stop(): Promise<void> {
    const closing = server
    server = undefined
    await new Promise<void>((resolve) => (closing ? closing.close(() => resolve()) : resolve()))
  }

  return { url: `smtp://${host}:${port}`, start, stop }
}
