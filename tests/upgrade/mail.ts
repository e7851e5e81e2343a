import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Side } from './side.ts'

/** Which side sends mail, and what it has sent. */

/** From now on this side alone takes mail from the outbox: the database skips the attempts of others. */
export async function letSend(connection: pg.Client, { name }: Side): Promise<void> {
  await connection.query(`
    create or replace function keep_from_others() returns trigger language plpgsql as $$
    begin
      if new.attempts > old.attempts and current_setting('application_name') <> '${name}' then return null; end if;
      return new;
    end $$;
    create or replace trigger keep_from_others before update on mail_outbox
      for each row execute function keep_from_others()`)
}

const WAIT_MS = 20_000

/** What the pattern finds first in an email that a side has sent to this address. @throws if none comes in time */
export async function mailed({ dataFolder }: Side, email: string, pattern: RegExp): Promise<string> {
  const folder = join(dataFolder, 'mail')
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await sleep(50)) {
    const names = await readdir(folder).catch(() => [])
    // Those that are being written have a different ending.
    for (const name of names.filter((each) => each.includes(email) && each.endsWith('.eml')).sort()) {
      const mail = await readFile(join(folder, name), 'utf8')
      // Quoted-printable breaks long lines by a `=` at their end, and writes `=` as `=3D`.
      const [found] = pattern.exec(mail.replace(/=\r?\n/g, '')) ?? []
      if (found) return found
    }
  }
  throw new Error(`no email with ${pattern} came to ${email}`)
}
