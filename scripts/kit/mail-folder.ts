import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** The mails that the service wrote into its data folder, as it does without a mail server. */

const WAIT_MS = 20_000

/** Names of the files of mails to this e-mail, without those that are being written. They begin with the time. */
export async function listMails(dataFolder: string, recipient: string): Promise<string[]> {
  const names = await readdir(join(dataFolder, 'mail')).catch(() => [])
  return names.filter((name) => name.includes(recipient) && name.endsWith('.eml')).toSorted()
}

/** What the pattern finds first in an email to this recipient. @throws if none comes in time */
export async function waitForMail(dataFolder: string, recipient: string, pattern: RegExp): Promise<string> {
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await sleep(50)) {
    for (const name of await listMails(dataFolder, recipient)) {
      const mail = await readFile(join(dataFolder, 'mail', name), 'utf8')
      // Quoted-printable breaks long lines by a `=` at their end, and writes `=` as `=3D`.
      const [found] = pattern.exec(mail.replace(/=\r?\n/g, '')) ?? []
      if (found) return found
    }
  }
  throw new Error(`no email with ${pattern} came to ${recipient}`)
}
