import { type Kysely, sql } from 'kysely'

/**
 * How many entries of the audit trail each day has, in the transactions that add them: they are exact whatever the clocks of
 * instances say, and whichever release writes. What was there before is added beside requests: see src/database/migrate.ts.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ schema: string }>`select current_schema() as schema`.execute(db)
  const schema = sql.id(rows[0]?.schema ?? 'public')
  // The roles of instances that run already may have no right to the new table.
  const asOwner = sql`language plpgsql security definer set search_path = ${schema}, pg_temp`
  const statements = [
    sql`create table audit_days (
      company_id uuid not null,
      day date not null,
      action text collate "C" not null,
      outcome text collate "C" not null,
      part uuid not null,
      count bigint not null,
      primary key (company_id, day, action, outcome, part)
    )`,
    sql`comment on table audit_days is 'the entries of audit_events, and the counts of refused_sign_ins and service_sign_ins, by day in UTC'`,
    sql`comment on column audit_days.part is 'as many as writers at the same time, so that none waits for another; the sum counts'`,
    sql`create index audit_days_by_day on audit_days (day)`,

    // Takes any part that nobody is writing. Without a wait, there is no deadlock, and no sign-in delays another.
    sql`create function add_to_audit_day(of_company uuid, at timestamptz, what text, how text, more bigint)
      returns void ${asOwner} as $$
      declare
        on_day date := (at at time zone 'UTC')::date;
        free uuid;
      begin
        -- By itself: joined to what is updated, it could be evaluated again, and find further parts.
        select part into free from audit_days
        where company_id = of_company and day = on_day and action = what and outcome = how
        limit 1 for no key update skip locked;
        if found then
          update audit_days set count = count + more
          where company_id = of_company and day = on_day and action = what and outcome = how and part = free;
        else
          insert into audit_days values (of_company, on_day, what, how, gen_random_uuid(), more);
        end if;
      end $$`,
    sql`revoke execute on function add_to_audit_day from public`,

    sql`create function add_entries_to_audit_days() returns trigger ${asOwner} as $$
      begin
        perform add_to_audit_day(company_id, day, action, outcome, count(*))
        from (select *, date_trunc('day', occurred_at, 'UTC') as day from added) a
        group by company_id, day, action, outcome;
        return null;
      end $$`,
    sql`create function add_sign_ins_to_audit_days() returns trigger ${asOwner} as $$
      begin
        perform add_to_audit_day(new.company_id, new.minute, 'sign_in', tg_argv[0], new.count - coalesce(old.count, 0));
        return null;
      end $$`,
    sql`create trigger counted_by_day after insert on audit_events
      referencing new table as added for each statement execute function add_entries_to_audit_days()`,
    sql`create trigger counted_by_day after insert or update of count on refused_sign_ins
      for each row execute function add_sign_ins_to_audit_days('refused')`,
    sql`create trigger counted_by_day after insert or update of count on service_sign_ins
      for each row execute function add_sign_ins_to_audit_days('done')`,

    // A snapshot has an entry and its count, or neither. So what is not counted in it was there before the triggers.
    sql`create function fill_audit_days() returns void language plpgsql as $$
      declare first_day timestamptz := date_trunc('day', now(), 'UTC') - interval '91 days';
      begin
        perform pg_advisory_xact_lock(1903211787);
        insert into audit_days
        select company_id, day, action, outcome, gen_random_uuid(), e.count - coalesce(d.count, 0)
        from (
          select company_id, (at at time zone 'UTC')::date as day, action, outcome, sum(count) as count
          from (
            select company_id, occurred_at as at, action, outcome, 1 as count from audit_events where occurred_at >= first_day
            union all
            select company_id, minute, 'sign_in', 'refused', count from refused_sign_ins where minute >= first_day
            union all
            select company_id, minute, 'sign_in', 'done', count from service_sign_ins where minute >= first_day
          ) entry
          group by 1, 2, 3, 4
        ) e
        left join (
          select company_id, day, action, outcome, sum(count) as count from audit_days group by 1, 2, 3, 4
        ) d using (company_id, day, action, outcome)
        where e.count > coalesce(d.count, 0);
        drop function if exists fill_audit_days();
      end $$`,
  ]
  for (const statement of statements) await statement.execute(db)
}
