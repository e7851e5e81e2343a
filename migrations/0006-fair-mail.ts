import { type Kysely, sql } from 'kysely'

/**
 * Bounds the mail that anyone can cause: each recipient gets so many an hour, in turns between the networks that
 * requested it. The lease of a mail is measured by the clock of the database, which all senders share.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table mail_outbox
      add column network text,
      add column wider_network text,
      add column turn integer,
      add column counted_at timestamptz,
      add column leased_until timestamptz,
      add check ((network is null) = (wider_network is null))`,
    sql`comment on column mail_outbox.network is
      'the network that asked for it; null if only the recipient or an operator can cause such a mail'`,
    sql`comment on column mail_outbox.turn is
      'which round it is sent in: each network has one mail to a recipient in a round, and each /48 has four'`,
    sql`comment on column mail_outbox.counted_at is 'when it used one of the mails that its recipient can get'`,
    sql`comment on column mail_outbox.leased_until is
      'until when no other sender takes it, by the clock of the database, which all instances share'`,

    sql`drop index mail_outbox_due`,
    // Mails that wait for the same moment are due in turns.
    sql`create index mail_outbox_due on mail_outbox (next_attempt_at, turn, mail_id)
      where sent_at is null and failed_at is null`,
    sql`create index mail_outbox_turns on mail_outbox
      (recipient, (coalesce(counted_at, failed_at) is null), turn, mail_id) where network is not null`,
    sql`create index mail_outbox_networks on mail_outbox (recipient, wider_network, turn) where network is not null`,
    // A change of password deletes the resets that wait.
    sql`create index mail_outbox_resets on mail_outbox (company_id, recipient)
      where kind = 'password_reset' and sent_at is null and failed_at is null`,
  ]
  for (const statement of statements) await statement.execute(db)
}
