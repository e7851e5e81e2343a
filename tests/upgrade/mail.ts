import type pg from 'pg'
import { waitForMail } from '../../scripts/kit/mail-folder.ts'
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

/** What the pattern finds in an email that a side has sent to this address. */
export const mailed = ({ dataFolder }: Side, email: string, pattern: RegExp): Promise<string> =>
  waitForMail(dataFolder, email, pattern)
