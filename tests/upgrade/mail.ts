import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { vi } from 'vitest'
import type { Side } from './side.ts'

/** Which side sends mail, and what it has sent. */

/** Lets only this side send email: the database skips the attempts of the other. */
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

/** Waits for an email from a side to this address, and returns the pattern's first match in it. */
export async function mailed({ dataFolder }: Side, email: string, pattern: RegExp): Promise<string> {
  const folder = join(dataFolder, 'mail')
  async function find(): Promise<string | undefined> {
    const names = await readdir(folder).catch(() => [])
    // Those that are being written have a different ending.
    for (const name of names.filter((each) => each.includes(email) && each.endsWith('.eml')).sort()) {
      const mail = await readFile(join(folder, name), 'utf8')
      // Quoted-printable breaks long lines by a `=` at their end, and writes `=` as `=3D`.
      const [found] = pattern.exec(mail.replace(/=\r?\n/g, '')) ?? []
      if (found) return found
    }
    return undefined
  }
  return await vi.waitUntil(find, { timeout: 100_000 })
}
