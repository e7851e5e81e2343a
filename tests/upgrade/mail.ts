import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { Failure } from '../../scripts/kit/errors.ts'
import { listMails } from '../../scripts/kit/mail-folder.ts'
import type { Side } from './side.ts'

/** Which side sends mail, and what it has sent. */

const WAIT_MS = 20_000

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

/** Waits for a mail that a side has sent to this e-mail, and returns what the pattern finds in it. */
export async function mailed({ name, dataFolder }: Side, email: string, pattern: RegExp): Promise<string> {
  for (const deadline = performance.now() + WAIT_MS; performance.now() < deadline; await sleep(50)) {
    for (const file of await listMails(dataFolder, email)) {
      const mail = await readFile(join(dataFolder, 'mail', file), 'utf8')
      // Quoted-printable breaks long lines by a `=` at their end.
      const [found] = pattern.exec(mail.replace(/=\r?\n/g, '')) ?? []
      if (found) return found
    }
  }
  throw new Failure(`${name} has sent no mail to ${email} with ${pattern}`)
}
