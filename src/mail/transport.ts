import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createTransport, type NodemailerError } from 'nodemailer'
import type { Config } from '../config.ts'
import type { MailKind } from './letters.ts'
import type { RenderedLetter } from './render.ts'

/** Where mail leaves the service: an SMTP server, or a folder where there is none. */

interface Message extends RenderedLetter {
  /** Names the message; the same when it has to be sent again. */
  id: string
  kind: MailKind
  to: string
  at: Date
}

export interface Transport {
  /** Where mail goes, for people. */
  destination: string
  /**
   * Resolves when the message was taken over, with the file that it is in, if it is in one.
   * @throws SendFailure
   */
  send(message: Message, signal: AbortSignal): Promise<{ file?: string }>
  close(): void
}

const TIMEOUTS = { connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 20_000 }
/** Connections to the server, as many as there are messages under way. */
export const MAX_CONNECTIONS = 5

export function openTransport({ mail, dataDir }: Pick<Config, 'mail' | 'dataDir'>): Transport {
  return mail.smtpUrl ? openServer(mail.smtpUrl, mail) : openFolder(join(dataDir, 'mail'), mail)
}

type Settings = Pick<Config['mail'], 'from' | 'requireTls'>

function openServer(smtpUrl: string, settings: Settings): Transport {
  const server = createTransport({
    url: smtpUrl,
    pool: true,
    maxConnections: MAX_CONNECTIONS,
    // Whether to try again is decided by the outbox.
    maxRequeues: 0,
    ...(settings.requireTls && { requireTLS: true }),
    ...TIMEOUTS,
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
      const file = join(folder, `${time}-${message.kind}-${to}-${message.id.slice(-8)}.eml`)
      await mkdir(folder, { recursive: true })
      // Its link is as good as a password.
      await writeFile(file, bytes, { mode: 0o600 })
      return { file }
    },
    close() {},
  }
}

function toMail({ id, kind: _, to, at, ...letter }: Message, { from }: Settings) {
  return {
    ...letter,
    from,
    // As an object it is taken as it is: a comma in it makes no second recipient.
    to: { name: '', address: to },
    date: at,
    messageId: `<${id}@${domainOf(from)}>`,
    // No out-of-office answers (RFC 3834).
    headers: { 'Auto-Submitted': 'auto-generated' },
    disableFileAccess: true,
    disableUrlAccess: true,
  }
}

function domainOf(sender: string): string {
  return /@([^\s<>@]+)>?$/.exec(sender)?.[1] ?? 'localhost'
}

/**
 * A message that did not get out, with codes for people to look up: what failed, at which command, and where.
 * None of a server's words, which may quote an address.
 */
export class SendFailure extends Error {
  override name = 'SendFailure'
  /**
   * Whether the server will not take it later either: a 5xx to the recipient (RFC 5321, section 4.2.1). To
   * anything else, or for reasons of policy (RFC 3463, 5.7), it may be our own settings that are at fault.
   */
  readonly isForGood: boolean

  constructor(cause: unknown) {
    const failure: Partial<NodemailerError & { address: string; port: number }> =
      cause instanceof Error ? cause : {}
    const { code = 'unknown', originalCode, address, port, command, responseCode } = failure
    const place = address && `${address}:${port}`
    super([code, originalCode, place, command, responseCode].filter(Boolean).join(' '))
    this.isForGood =
      failure.permanent === true &&
      command === 'RCPT TO' &&
      responseCode !== 530 &&
      !/\b5\.7\.\d/.test(failure.response ?? '')
  }
}
