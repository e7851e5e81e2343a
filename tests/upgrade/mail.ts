import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import { vi } from 'vitest'
import type { Side } from './side.ts'

/** Lets only this side send email: the database skips the other side's attempts. */
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

/** Waits for a side's email to this address, and returns the pattern's first match in it. */
export async function mailed({ dataFolder }: Side, email: string, pattern: RegExp): Promise<string> {
  const folder = join(dataFolder, 'mail')
  async function find(): Promise<string | undefined> {
    const names = await readdir(folder).catch(() => [])
    // Unfinished files have a different ending.
    for (const name of names.filter((each) => each.includes(email) && each.endsWith('.eml')).sort()) {
      const mail = await readFile(join(folder, name), 'utf8')
      // Quoted-printable breaks long lines with a `=` at the end, and writes `=` as `=3D`.
      const [found] = pattern.exec(mail.replace(/=\r?\n/g, '')) ?? []
      if (found) return found
    }
    return undefined
  }
  return await vi.waitUntil(find, { timeout: 100_000 })
}
