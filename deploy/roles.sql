-- Creates the database and its three roles: gatehouse_owner runs migrations, gatehouse is the service, and gatehouse_operator runs
-- operators' commands. Run it on the primary. It can run again, and then needs only the passwords of roles that do not exist yet:
--   OWNER_PASSWORD=… SERVICE_PASSWORD=… OPERATOR_PASSWORD=… psql -f deploy/roles.sql
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv service_password SERVICE_PASSWORD
\getenv operator_password OPERATOR_PASSWORD

-- Keeps the passwords out of the log.
set log_statement = 'none';
set log_min_error_statement = 'panic';
select to_regrole('gatehouse_owner') is null as needs_owner, to_regrole('gatehouse') is null as needs_service,
  to_regrole('gatehouse_operator') is null as needs_operator \gset
\if :needs_owner
create role gatehouse_owner login password :'owner_password';
\endif
\if :needs_service
create role gatehouse login password :'service_password';
\endif
\if :needs_operator
create role gatehouse_operator login password :'operator_password';
\endif
-- Operators may do what the service may, and more.
grant gatehouse to gatehouse_operator;
select 'create database gatehouse owner gatehouse_owner'
  where not exists (select from pg_database where datname = 'gatehouse') \gexec
revoke all on database gatehouse from public;
grant connect on database gatehouse to gatehouse;

\connect gatehouse
begin;
revoke all on schema public from public;
grant usage on schema public to gatehouse;
-- For the tables that migrations create.
alter default privileges for role gatehouse_owner in schema public
  grant select, insert, update, delete on tables to gatehouse;

-- The exceptions. A new database has no tables yet, so `migrate` calls this, too.
create or replace function reserve_tables() returns void language plpgsql set search_path = public, pg_temp as $$
  begin
    -- Concurrent changes of a table's rights would fail.
    perform pg_advisory_xact_lock(1903211788);
    revoke insert, update, delete on platform_clients, roles, plans, signing_keys, kysely_migration, kysely_migration_lock
      from gatehouse;
    grant update (last_used_at) on platform_clients to gatehouse;
    grant insert, update, delete on platform_clients, roles, plans, signing_keys to gatehouse_operator;
  end $$;
revoke execute on function reserve_tables from public;
grant execute on function reserve_tables to gatehouse_owner;
select reserve_tables() where to_regclass('platform_clients') is not null;
commit;
