import { type Kysely, sql } from 'kysely'

/**
 * The order in which machines read the audit trail: the positions of the event feed (see 0017-event-feed.ts). Entries from before
 * this migration have none. Sums of sign-ins grow, so they are read by their minute, once nobody adds to it any more.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`alter table audit_events add feed_position bigint`,
    sql`alter table audit_events alter feed_position set default next_feed_position()`,
    // Existing partitions get theirs beside requests: see src/database/indexes.ts.
    sql`create index audit_events_by_feed_position on only audit_events (company_id, feed_position, audit_id)
      where feed_position is not null`,

    sql`alter table event_feed add audit_from timestamptz not null default date_trunc('minute', now(), 'UTC')`,
    sql`comment on column event_feed.audit_from is 'the first minute whose sums are in the audit feed'`,

    // In the same cluster, no position exceeds that of the next transaction. No index finds the last entry of all companies, so
    // after a restore into a different cluster, this reads all of them.
    sql`create or replace function begin_event_era(former_timeline text) returns void language plpgsql as $$
      begin
        update event_feed set
          system_identifier = split_part(this_timeline(), '/', 1),
          timeline = split_part(this_timeline(), '/', 2),
          database_oid = this_database(),
          table_oid = tableoid,
          position_offset = greatest(
            extract(epoch from clock_timestamp()) * 1000000,
            (select coalesce(max(feed_position), 0) from events) + 1000000000,
            case when system_identifier = split_part(this_timeline(), '/', 1)
              then position_offset + pg_current_xact_id()::text::bigint
              else (select coalesce(max(feed_position), 0) from audit_events)
            end + 1000000000
          ) - pg_current_xact_id()::text::bigint
        where timeline = former_timeline;
      end $$`,

    // The number of the transaction is issued before the clock is read. So once a reader has read a later time, and then sees
    // only transactions with later numbers, nobody adds to earlier minutes.
    sql`create function minute_of_sum(at timestamptz, kept_open interval) returns timestamptz language plpgsql as $$
      begin
        perform pg_current_xact_id();
        return greatest(date_trunc('minute', at, 'UTC'), date_trunc('minute', clock_timestamp() - kept_open, 'UTC'));
      end $$`,
    sql`comment on function minute_of_sum is
      'the minute to which a sign-in is added: its own, unless that is over by the clock of the database'`,
  ]
  for (const statement of statements) await statement.execute(db)
}
