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

/** The token in the link of the first mail to this e-mail, such as `verify_…`. */
export async function waitForToken(dataFolder: string, recipient: string, purpose: string): Promise<string> {
  const pattern = new RegExp(`${purpose}_[A-Za-z0-9_-]{43}`)
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await sleep(100)) {
    const [name] = await listMails(dataFolder, recipient)
    if (name === undefined) continue
    const mail = await readFile(join(dataFolder, 'mail', name), 'utf8')
    // Quoted-printable breaks long lines by a `=` at their end, and writes `=` as `=3D`.
    const [token] = pattern.exec(mail.replace(/=\r?\n/g, '')) ?? []
    if (token) return token
  }
  throw new Error(`no mail with a token to ${purpose} came to ${recipient}`)
}
