import { type Kysely, sql } from 'kysely'

/**
 * A dump that is restored into the same cluster has the system identifier of the cluster. But its database or its tables were
 * created again, so they have new OIDs. TRUNCATE and VACUUM FULL keep the OID of a table.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    // Ingest locks events before it reads event_feed. While none is in progress, none runs a function that changes here.
    sql`lock table events in share mode`,
    sql`alter table event_feed add database_oid oid, add table_oid oid`,
    sql`comment on column event_feed.database_oid is
      'with table_oid and system_identifier, where the feed was last settled; a restored dump is elsewhere'`,

    // As this_timeline: a connection never changes its database, so each asks once.
    sql`create function this_database() returns oid language plpgsql as $$
      declare known text := current_setting('gatehouse.database', true);
      begin
        if coalesce(known, '') = '' then
          select oid into known from pg_database where datname = current_database();
          perform set_config('gatehouse.database', known, false);
        end if;
        return known;
      end $$`,

    sql`create or replace function begin_event_era(former_timeline text) returns void language plpgsql as $$
      begin
        update event_feed set
          system_identifier = split_part(this_timeline(), '/', 1),
          timeline = split_part(this_timeline(), '/', 2),
          database_oid = this_database(),
          table_oid = tableoid,
          position_offset = greatest(
            extract(epoch from clock_timestamp()) * 1000000,
            (select coalesce(max(feed_position), 0) from events) + 1000000000
          ) - pg_current_xact_id()::text::bigint
        where timeline = former_timeline;
      end $$`,

    sql`create or replace function next_feed_position() returns bigint language plpgsql as $$
      declare feed record;
      begin
        select *, tableoid into feed from event_feed;
        if feed.table_oid <> feed.tableoid or feed.database_oid <> this_database()
          or feed.system_identifier || '/' || feed.timeline <> this_timeline()
        then
          if not is_feed_settled() then
            raise 'the database was restored; run "npm run admin -- restored"' using errcode = 'system_error';
          end if;
          perform begin_event_era(feed.timeline);
          select * into feed from event_feed;
        end if;
        return feed.position_offset + pg_current_xact_id()::text::bigint;
      end $$`,

    sql`create or replace function is_feed_settled() returns boolean language sql as $$
      select system_identifier = split_part(this_timeline(), '/', 1)
        and database_oid = this_database() and table_oid = tableoid
      from event_feed
    $$`,

    sql`update event_feed set database_oid = this_database(), table_oid = tableoid`,
    sql`alter table event_feed alter database_oid set not null, alter table_oid set not null`,
  ]
  for (const statement of statements) await statement.execute(db)
}
