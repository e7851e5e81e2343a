import { type Kysely, sql } from 'kysely'

/**
 * The order in which events are read. Ids and times are given before a commit, so a reader that goes by them skips what
 * commits late. The position is the number of the storing transaction, which no transaction gets that begins after a
 * commit it could see; what stands before the oldest transaction in progress is complete.
 *
 * A restored dump, a disk snapshot or a promoted standby begins with lower numbers than readers have seen. So an era adds an
 * offset: the positions of an era begin at the time of its start in microseconds, and grow by one for each transaction,
 * which is slower. An era belongs to one timeline of one cluster.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const statements = [
    sql`create table event_feed (
      is_only boolean primary key default true check (is_only),
      feed_id uuid not null default gen_random_uuid(),
      system_identifier text not null,
      timeline text not null,
      position_offset bigint not null,
      deleted_position bigint not null default 0,
      deleted_company_id uuid not null default '00000000-0000-0000-0000-000000000000',
      deleted_event_id text not null default ''
    )`,
    sql`comment on column event_feed.feed_id is 'names the deployment in cursors'`,
    sql`comment on column event_feed.deleted_position is
      'with the next two columns, the newest event that retention has deleted; 0: none'`,

    // A connection lasts no longer than the timeline of its server, so each asks once.
    sql`create function this_timeline() returns text language plpgsql as $$
      declare known text := current_setting('gatehouse.timeline', true);
      begin
        if coalesce(known, '') = '' then
          select system_identifier || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
            into known from pg_control_system();
          perform set_config('gatehouse.timeline', known, false);
        end if;
        return known;
      end $$`,

    // Of two transactions that notice another timeline, one begins the era. A margin, since the clock may have been set back,
    // and since transactions with lower numbers can come after this one.
    sql`create function begin_event_era(former_timeline text) returns void language plpgsql as $$
      begin
        update event_feed set
          system_identifier = split_part(this_timeline(), '/', 1),
          timeline = split_part(this_timeline(), '/', 2),
          position_offset = greatest(
            extract(epoch from clock_timestamp()) * 1000000,
            (select coalesce(max(feed_position), 0) from events) + 1000000000
          ) - pg_current_xact_id()::text::bigint
        where timeline = former_timeline;
      end $$`,

    sql`create function next_feed_position() returns bigint language plpgsql as $$
      declare feed event_feed;
      begin
        select * into feed from event_feed;
        if feed.system_identifier || '/' || feed.timeline <> this_timeline() then
          if feed.system_identifier <> split_part(this_timeline(), '/', 1) then
            raise 'the database was restored into another cluster; run "npm run admin -- restored"'
              using errcode = 'system_error';
          end if;
          perform begin_event_era(feed.timeline);
          select * into feed from event_feed;
        end if;
        return feed.position_offset + pg_current_xact_id()::text::bigint;
      end $$`,

    sql`create function is_feed_settled() returns boolean language sql as $$
      select system_identifier = split_part(this_timeline(), '/', 1) from event_feed
    $$`,

    // Last, since ingest waits for the lock. The constant rewrites no row: it marks what was stored before. Earlier instances
    // fill the column by the default too.
    sql`alter table events add feed_position bigint not null default 0`,
    sql`alter table events alter feed_position set default next_feed_position()`,
    // Of the last of so many events. Postgres would take a range for few rows, and sort all that are in it.
    sql`create function last_feed_position(after bigint, before bigint, count int) returns bigint language sql stable
      set enable_bitmapscan = off set enable_sort = off as $$
        select feed_position from events where feed_position > after and feed_position < before
        order by feed_position offset count - 1 limit 1
      $$`,

    sql`insert into event_feed (system_identifier, timeline, position_offset)
      select split_part(this_timeline(), '/', 1), split_part(this_timeline(), '/', 2),
        extract(epoch from clock_timestamp()) * 1000000 - pg_current_xact_id()::text::bigint`,
  ]
  for (const statement of statements) await statement.execute(db)
}
