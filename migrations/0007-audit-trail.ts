import { type Kysely, sql } from 'kysely'

/**
 * The audit trail in monthly partitions, which the service makes and drops by a function, so that its role needs
 * no right to change tables. IP addresses and e-mails are in a table of their own. Refused sign-ins are summed up:
 * strangers cause them, so their rows must stay few.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ schema: string }>`select current_schema() as schema`.execute(db)
  const schema = sql.id(rows[0]?.schema ?? 'public')
  const statements = [
    sql`lock table audit_events in access exclusive mode`,
    sql`alter table audit_events rename to audit_events_before`,
    sql`alter index audit_events_pkey rename to audit_events_before_pkey`,

    // No foreign keys: entries outlive users and companies.
    sql`create table audit_events (
      company_id uuid not null,
      audit_id uuid not null,
      occurred_at timestamptz not null,
      action text not null,
      outcome text not null,
      actor text,
      subject text,
      session_id uuid,
      ip_address text check (ip_address is null),
      details json,
      primary key (company_id, occurred_at, audit_id)
    ) partition by range (occurred_at)`,
    sql`comment on column audit_events.actor is 'the id of a user, operator, or null if nobody proved who they are'`,
    sql`comment on column audit_events.ip_address is
      'only for inserts: the trigger addresses_apart stores it in audit_addresses, and null here'`,
    sql`create table audit_addresses (
      company_id uuid not null,
      audit_id uuid not null,
      occurred_at timestamptz not null,
      ip_address text,
      email text,
      primary key (company_id, audit_id)
    )`,
    sql`comment on table audit_addresses is 'the addresses of audit entries, kept shorter than the entries'`,
    sql`create index audit_addresses_by_time on audit_addresses (occurred_at)`,
    sql`create table refused_sign_ins (
      company_id uuid not null,
      minute timestamptz not null,
      network text not null,
      kind text not null,
      count integer not null,
      last_email text not null,
      last_at timestamptz not null,
      primary key (company_id, minute, network, kind)
    )`,
    sql`create index refused_sign_ins_by_minute on refused_sign_ins (minute)`,

    // In the database and not in the statements, so that it also holds for older instances that still run.
    sql`create function store_addresses_apart() returns trigger language plpgsql as $$
      begin
        insert into audit_addresses (company_id, audit_id, occurred_at, ip_address, email)
        values (new.company_id, new.audit_id, new.occurred_at, new.ip_address,
          case when new.actor like '%@%' then new.actor when new.subject like '%@%' then new.subject end);
        new.ip_address := null;
        if new.actor like '%@%' then new.actor := null; end if;
        if new.subject like '%@%' then new.subject := null; end if;
        return new;
      end $$`,
    sql`create trigger addresses_apart before insert on audit_events for each row
      when (new.ip_address is not null or new.actor like '%@%' or new.subject like '%@%')
      execute function store_addresses_apart()`,
    sql`create trigger append_only before update or delete or truncate on audit_events
      for each statement execute function refuse_change()`,

    // Holds what has no partition: the clock of an instance is far off, or the function has not run for months.
    sql`create table audit_events_other partition of audit_events default`,
    sql`create trigger append_only before update or delete or truncate on audit_events_other
      for each statement execute function refuse_change()`,

    // Attaching locks neither readers nor writers of other months, unlike "create table ... partition of".
    sql`create function add_audit_partition(month timestamptz) returns void language plpgsql
      set search_path = ${schema}, pg_temp set timezone = 'UTC' as $$
      declare
        name text := 'audit_events_' || to_char(month, 'YYYY_MM');
        next_month timestamptz := month + interval '1 month';
      begin
        if to_regclass(format('%I', name)) is not null or exists (
          select from audit_events_other where occurred_at >= month and occurred_at < next_month
        ) then return; end if;
        execute format('create table %I (like audit_events including all)', name);
        execute format('create trigger append_only before update or delete or truncate on %I
          for each statement execute function refuse_change()', name);
        execute format('alter table audit_events attach partition %I for values from (%L) to (%L)',
          name, month, next_month);
      end $$`,
    sql`revoke execute on function add_audit_partition from public`,

    // A role that may add entries may run this. It deletes nothing younger than 90 days by the clock of the database.
    sql`create function maintain_audit_trail(retention_days integer) returns integer language plpgsql
      security definer
      set search_path = ${schema}, pg_temp set timezone = 'UTC' set lock_timeout = '500ms' as $$
      declare
        this_month timestamptz := date_trunc('month', clock_timestamp());
        kept_from timestamptz := clock_timestamp() - make_interval(days => retention_days);
        lapsed regclass;
        dropped integer := 0;
      begin
        if retention_days is null or retention_days < 90 then
          raise exception 'the audit trail is kept for at least 90 days' using errcode = 'check_violation';
        end if;
        if not has_table_privilege(session_user, 'audit_events', 'insert') then
          raise exception 'permission denied for function maintain_audit_trail'
            using errcode = 'insufficient_privilege';
        end if;
        -- One at a time; entries are added meanwhile.
        lock table only audit_events in share update exclusive mode;
        for ahead in 0..3 loop
          perform add_audit_partition(this_month + make_interval(months => ahead));
        end loop;
        for lapsed in
          select c.oid from pg_inherits i join pg_class c on c.oid = i.inhrelid
          where i.inhparent = 'audit_events'::regclass and c.relname ~ '^audit_events_[0-9]{4}_[0-9]{2}$'
            and to_timestamp(right(c.relname, 7), 'YYYY_MM') + interval '1 month' <= kept_from
        loop
          execute format('drop table %s', lapsed);
          dropped := dropped + 1;
        end loop;
        if exists (select from audit_events_other where occurred_at < kept_from) then
          alter table audit_events_other disable trigger append_only;
          delete from audit_events_other where ctid = any (array(
            select ctid from audit_events_other where occurred_at < kept_from limit 10000
          ));
          alter table audit_events_other enable trigger append_only;
        end if;
        return dropped;
      end $$`,

    sql`select add_audit_partition(month) from (
        select distinct date_trunc('month', occurred_at, 'UTC') as month from audit_events_before
        union select date_trunc('month', now(), 'UTC') + make_interval(months => ahead) from generate_series(0, 3) ahead
      ) months
      where month between now() - interval '5 years' and now() + interval '4 months'`,
    sql`insert into audit_addresses
      select company_id, audit_id, occurred_at, ip_address,
        case when actor like '%@%' then actor when subject like '%@%' then subject end
      from audit_events_before
      where (ip_address is not null or actor like '%@%' or subject like '%@%')
        and occurred_at > now() - interval '90 days'`,
    sql`insert into audit_events (company_id, audit_id, occurred_at, action, outcome, actor, subject, session_id)
      select company_id, audit_id, occurred_at, action, outcome,
        case when actor not like '%@%' then actor end, case when subject not like '%@%' then subject end, session_id
      from audit_events_before`,
    // Older instances go on writing, so every role that could use the old table can use the new ones at once.
    sql`do $$
      declare held record;
      begin
        for held in
          select privilege_type, case grantee when 0 then 'public' else grantee::regrole::text end as grantee
          from pg_class c, aclexplode(c.relacl) where c.oid = 'audit_events_before'::regclass
        loop
          execute format('grant %s on audit_events, audit_addresses, refused_sign_ins to %s',
            held.privilege_type, held.grantee);
        end loop;
      end $$`,
    sql`drop table audit_events_before`,
  ]
  for (const statement of statements) await statement.execute(db)
}
