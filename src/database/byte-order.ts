import { type RawBuilder, sql } from 'kysely'
import type { Executor } from './connect.ts'

/**
 * Indexes of emails, handles, IDs, and names of counters and keys, in the order of their bytes. An index in the order of a
 * collation finds only some of its rows once the data is moved to a system that sorts differently: accounts are locked out,
 * and an email registers twice.
 *
 * text_pattern_ops compares bytes as collate "C" does, but leaves the column as it is. So the order in which instances of the
 * previous release lock rows stays the same, and so do the result types of statements that they have prepared.
 */

/** An index that is built beside requests, and then takes the name of the former one. */
export interface Replacement {
  former: string
  name: string
  create: RawBuilder<unknown>
  drop: RawBuilder<unknown>
  swap: RawBuilder<unknown>[]
}

const isPrimaryKey = true

export const REPLACEMENTS: Replacement[] = [
  replace('events', 'events_pkey', sql`(company_id, event_id text_pattern_ops)`, { isPrimaryKey }),
  replace('users', 'users_company_id_email_key', sql`(company_id, email text_pattern_ops)`),
  // Postgres 18 also finds users by ID in it, as if the name were not there.
  replace(
    'users',
    'users_by_name',
    sql`(company_id, lower(name) collate "C", user_id) where status <> 'deleted'`,
    { isUnique: false },
  ),
  replace('companies', 'companies_handle_key', sql`(handle text_pattern_ops)`),
  replace('company_handles', 'company_handles_pkey', sql`(handle text_pattern_ops)`, { isPrimaryKey }),
  replace('invitations', 'invitations_company_id_email_key', sql`(company_id, email text_pattern_ops)`),
  replace(
    'one_time_tokens',
    'one_time_tokens_pkey',
    sql`(company_id, purpose text_pattern_ops, email text_pattern_ops, token_hash)`,
    { isPrimaryKey },
  ),
  replace('rate_counters', 'rate_counters_pkey', sql`(counter text_pattern_ops)`, { isPrimaryKey }),
  replace('signing_keys', 'signing_keys_key_id_key', sql`(key_id text_pattern_ops)`),
  replace(
    'refused_sign_ins',
    'refused_sign_ins_pkey',
    sql`(company_id, minute, network text_pattern_ops, kind text_pattern_ops)`,
    { isPrimaryKey },
  ),
  replace(
    'refused_requests',
    'refused_requests_pkey',
    sql`(company_id, minute, reason text_pattern_ops, network text_pattern_ops)`,
    { isPrimaryKey },
  ),
  replace(
    'service_sign_ins',
    'service_sign_ins_pkey',
    sql`(company_id, minute, user_id, network text_pattern_ops)`,
    { isPrimaryKey },
  ),
  replace(
    'users',
    'users_by_proven_email',
    sql`(email text_pattern_ops) where email_verified_at is not null`,
    { isUnique: false },
  ),
  replace(
    'mail_outbox',
    'mail_outbox_turns',
    sql`(recipient text_pattern_ops, (coalesce(counted_at, failed_at) is null), turn, mail_id)
      where network is not null`,
    { isUnique: false },
  ),
  replace(
    'mail_outbox',
    'mail_outbox_networks',
    sql`(recipient text_pattern_ops, wider_network text_pattern_ops, turn) where network is not null`,
    { isUnique: false },
  ),
  replace(
    'mail_outbox',
    'mail_outbox_resets',
    sql`(company_id, recipient text_pattern_ops)
      where kind = 'password_reset' and sent_at is null and failed_at is null`,
    { isUnique: false },
  ),
]

function replace(
  table: string,
  former: string,
  definition: RawBuilder<unknown>,
  { isUnique = true, isPrimaryKey = false } = {},
): Replacement {
  const [on, name, kept] = [sql.table(table), sql.table(`${former}_by_bytes`), sql.table(former)]
  return {
    former,
    name: `${former}_by_bytes`,
    create: sql`create ${isUnique ? sql`unique` : sql``} index concurrently ${name} on ${on} ${definition}`,
    drop: sql`drop index concurrently ${name}`,
    swap: [
      sql`alter table ${on} drop constraint if exists ${kept}`,
      sql`drop index if exists ${kept}`,
      sql`alter index ${name} rename to ${kept}`,
      // A primary key cannot have it. Logical replication finds rows by the index instead.
      ...(isPrimaryKey ? [sql`alter table ${on} replica identity using index ${kept}`] : []),
    ],
  }
}

const collatedIndexes = sql`
  select i.indexrelid from pg_index i
  where exists (
    select from unnest(i.indcollation::oid[], i.indclass::oid[]) as key (collation_oid, class_oid)
    join pg_opclass c on c.oid = key.class_oid
    where key.collation_oid not in (0, '"C"'::regcollation, '"POSIX"'::regcollation)
      and c.opcname not in ('text_pattern_ops', 'varchar_pattern_ops', 'bpchar_pattern_ops')
  )`

/** Whether the order of an index depends on a collation. */
export async function isCollated(db: Executor, name: string): Promise<boolean> {
  const { rows } = await sql`${collatedIndexes} and i.indexrelid = to_regclass(${name})`.execute(db)
  return rows.length > 0
}

/** What an operator has to do where the system's collation has changed below the database. Postgres 15 and newer know it. */
export async function warnOfCollation(db: Executor): Promise<string[]> {
  const { rows } = await sql<{ database: string; was: string; is: string; indexes: string }>`
    select datname as database, datcollversion as was, pg_database_collation_actual_version(d.oid) as is,
      (select string_agg(c.relname, ', ' order by c.relname) from pg_class c where c.oid in (${collatedIndexes})
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)) as indexes
    from pg_database d
    where datname = current_database() and datcollversion <> pg_database_collation_actual_version(d.oid)`.execute(
    db,
  )
  return rows.map(
    ({ database, was, is, indexes }) =>
      `The collation of the system has changed from version ${was} to ${is}, so these indexes can be out of order: ${indexes}. ` +
      `Run "reindex database ${database}" and "alter database ${database} refresh collation version"`,
  )
}
