-- Creates the database and its two roles. gatehouse_owner runs migrations; gatehouse is the service. Run it once, on the primary:
--   OWNER_PASSWORD=… SERVICE_PASSWORD=… psql -f deploy/roles.sql
\set ON_ERROR_STOP on
\getenv owner_password OWNER_PASSWORD
\getenv service_password SERVICE_PASSWORD

-- Keeps the passwords out of the log.
set log_statement = 'none';
set log_min_error_statement = 'panic';
create role gatehouse_owner login password :'owner_password';
create role gatehouse login password :'service_password';
create database gatehouse owner gatehouse_owner;

\connect gatehouse
revoke all on database gatehouse from public;
grant connect on database gatehouse to gatehouse;
revoke all on schema public from public;
grant usage on schema public to gatehouse;
-- For the tables that migrations create.
alter default privileges for role gatehouse_owner in schema public
  grant select, insert, update, delete on tables to gatehouse;
