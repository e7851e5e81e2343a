import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { createTransport, type NodemailerError } from 'nodemailer'
import type { Config } from '../config/config.ts'
import type { MailKind, renderLetter } from './letters.ts'

/** Sends email to an SMTP server, or writes it to a folder if none is configured. */

interface Message extends ReturnType<typeof renderLetter> {
  /** Becomes the Message-ID, the same for every attempt. */
  id: string
  kind: MailKind
  to: string
  at: Date
}

export interface Transport {
  destination: string
  /** @throws SendFailure if the mail server does not accept it */
  send(message: Message, signal: AbortSignal): Promise<{ file?: string }>
  close(): void
}

export const MAX_CONNECTIONS = 5

export function openTransport({ mail, dataDir }: Pick<Config, 'mail' | 'dataDir'>): Transport {
  return mail.smtpUrl ? openServer(mail.smtpUrl, mail) : openFolder(join(dataDir, 'mail'), mail)
}

type Settings = Pick<Config['mail'], 'from' | 'requireTls' | 'clientName'>

function openServer(smtpUrl: string, settings: Settings): Transport {
  const server = createTransport({
    url: smtpUrl,
    name: settings.clientName,
    pool: true,
    maxConnections: MAX_CONNECTIONS,
    // The outbox decides about retries.
    maxRequeues: 0,
    ...(settings.requireTls && { requireTLS: true }),
    // The sender bounds the whole attempt. `socketTimeout` applies between two replies.
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 30_000,
  })
  return {
    destination: `the mail server ${new URL(smtpUrl).host}`,
    async send(message, signal) {
      try {
        await server.sendMail({ ...toMail(message, settings), signal })
      } catch (error) {
        throw new SendFailure(error)
      }
      return {}
    },
    close: () => server.close(),
  }
}

function openFolder(folder: string, settings: Settings): Transport {
  const composer = createTransport({ streamTransport: true, buffer: true, newline: 'unix' })
  return {
    destination: `files in ${folder}`,
    async send(message) {
      const { message: bytes } = await composer.sendMail(toMail(message, settings))
      const time = message.at.toISOString().replaceAll(':', '-')
      const to = message.to.replace(/[^\w@.+-]/g, '_').slice(0, 100)
      const name = join(folder, `${time}-${message.kind}-${to}-${message.id.slice(-8)}`)
      const file = `${name}.eml`
      try {
        // A link is as good as a password, and the file names contain emails.
        await mkdir(folder, { recursive: true, mode: 0o700 })
        await chmod(folder, 0o700)
        // Unencoded, because the .eml wraps lines as long as a link.
        await writeWhole(`${name}.txt`, `To: ${message.to}\nSubject: ${message.subject}\n\n${message.text}`)
        await writeWhole(file, bytes)
      } catch (error) {
        throw new SendFailure(error)
      }
      return { file }
    },
    close() {},
  }
}

/** The file appears only when it is complete, even if the disk is full. */
async function writeWhole(file: string, bytes: Buffer | Readable | string): Promise<void> {
  const draft = `${file}.part`
  try {
    await writeFile(draft, bytes, { mode: 0o600 })
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    throw error
  }
}

function toMail({ id, kind: _, to, at, ...letter }: Message, { from }: Settings) {
  return {
    ...letter,
    // Objects are not parsed, so a comma in the email or the name does not add a second address.
    from,
    to: { name: '', address: to },
    date: at,
    messageId: `<${id}@${from.address.slice(from.address.indexOf('@') + 1)}>`,
    // Prevents out-of-office replies (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

/** Omits the server's text, which can quote an email. */
export class SendFailure extends Error {
  override name = 'SendFailure'

  constructor(cause: unknown) {
    const failure: Failure = cause instanceof Error ? cause : {}
    const { code = 'unknown', originalCode, address, port, command, responseCode, syscall } = failure
    const place = address && `${address}:${port}`
    super([code, originalCode, place, command, responseCode, syscall].filter(Boolean).join(' '))
  }
}

type Failure = Partial<NodemailerError & NodeJS.ErrnoException & { address: string; port: number }>
