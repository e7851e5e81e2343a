import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Executor } from './connect.ts'
import { codeOf } from './faults.ts'
import type { Database } from './schema.ts'

/** Indexes that are built while requests run. In a migration, they would block writes. */

interface Index {
  table: string
  name: string
  columns: RawBuilder<unknown>
  /** The index that this one replaces, taking its name. Postgres's constraint names end in `_pkey` and `_key`. */
  former?: string
  parent?: string
}

const INDEXES: Index[] = [
  { table: 'events', name: 'events_by_feed_position', columns: sql`(feed_position)` },
  {
    table: 'audit_addresses',
    name: 'audit_addresses_by_email',
    columns: sql`(company_id, email text_pattern_ops) where email is not null`,
  },
  {
    table: 'refused_sign_ins',
    name: 'refused_sign_ins_by_user',
    columns: sql`(company_id, user_id, minute) where user_id is not null`,
  },
  { table: 'service_passwords', name: 'service_passwords_by_digest', columns: sql`(digest)` },
  {
    table: 'refused_sign_ins',
    name: 'refused_sign_ins_late',
    columns: sql`(company_id, minute) where reason in ('factor_missing', 'other')`,
  },
  ...inByteOrder('events', { events_pkey: sql`(company_id, event_id text_pattern_ops)` }),
  ...inByteOrder('users', {
    users_company_id_email_key: sql`(company_id, email text_pattern_ops)`,
    // Postgres 18 also finds users by ID in it, skipping the name.
    users_by_name: sql`(company_id, lower(name) collate "C", user_id) where status <> 'deleted'`,
    users_by_proven_email: sql`(email text_pattern_ops) where email_verified_at is not null`,
  }),
  ...inByteOrder('companies', { companies_handle_key: sql`(handle text_pattern_ops)` }),
  ...inByteOrder('company_handles', { company_handles_pkey: sql`(handle text_pattern_ops)` }),
  ...inByteOrder('invitations', {
    invitations_company_id_email_key: sql`(company_id, email text_pattern_ops)`,
  }),
  ...inByteOrder('one_time_tokens', {
    one_time_tokens_pkey: sql`(company_id, purpose text_pattern_ops, email text_pattern_ops, token_hash)`,
  }),
  ...inByteOrder('rate_counters', { rate_counters_pkey: sql`(counter text_pattern_ops)` }),
  ...inByteOrder('signing_keys', { signing_keys_key_id_key: sql`(key_id text_pattern_ops)` }),
  ...inByteOrder('refused_sign_ins', {
    refused_sign_ins_pkey: sql`(company_id, minute, network text_pattern_ops, kind text_pattern_ops)`,
  }),
  ...inByteOrder('refused_requests', {
    refused_requests_pkey: sql`(company_id, minute, reason text_pattern_ops, network text_pattern_ops)`,
  }),
  ...inByteOrder('service_sign_ins', {
    service_sign_ins_pkey: sql`(company_id, minute, user_id, network text_pattern_ops)`,
  }),
  ...inByteOrder('mail_outbox', {
    mail_outbox_turns: sql`(recipient text_pattern_ops, (coalesce(counted_at, failed_at) is null), turn, mail_id)
      where network is not null`,
    mail_outbox_networks: sql`(recipient text_pattern_ops, wider_network text_pattern_ops, turn) where network is not null`,
    mail_outbox_resets: sql`(company_id, recipient text_pattern_ops)
      where kind = 'password_reset' and sent_at is null and failed_at is null`,
  }),
]

/**
 * In a collation's order, an index loses rows on a system that sorts differently: accounts are locked out, and an email registers
 * twice. Unlike collate "C", text_pattern_ops does not change the previous release's lock order and prepared statements.
 */
function inByteOrder(table: string, columnsOf: Record<string, RawBuilder<unknown>>): Index[] {
  return Object.entries(columnsOf).map(([former, columns]) => {
    return { table, name: `${former}_by_bytes`, columns, former }
  })
}

/** Migrations create these only on audit_events itself. Partitions created later inherit them. */
const PARTITIONED: Record<string, RawBuilder<unknown>> = {
  audit_events_by_action: sql`(company_id, action text_pattern_ops, occurred_at, audit_id)`,
  audit_events_by_actor: sql`(company_id, actor text_pattern_ops, occurred_at, audit_id)`,
  audit_events_by_actor_and_action: sql`(company_id, actor text_pattern_ops, action text_pattern_ops, occurred_at, audit_id)`,
  audit_events_by_outcome: sql`(company_id, outcome collate "C", occurred_at, audit_id,
    action collate "C", actor collate "C") where outcome <> 'done'`,
  audit_events_by_subject: sql`(company_id, subject collate "C", occurred_at, audit_id,
    action collate "C", actor collate "C", outcome collate "C") where subject is not null`,
  audit_events_by_feed_position: sql`(company_id, feed_position, audit_id) where feed_position is not null`,
}

const LOCK = 1_903_211_786
const RETRY_MS = 1_000

/** Safe in several instances, and after an interrupted build. */
export async function buildIndexes(db: Kysely<Database>, onWait: (text: string) => void): Promise<void> {
  for (const index of [...INDEXES, ...(await listOfPartitions(db))]) {
    for (let waits = 0; !(await isDone(db, index)); waits += 1) {
      if (waits === 1)
        onWait(
          `Waiting for the index ${index.name}: another instance is building it, or a transaction locks its table.`,
        )
      if (waits > 0) await sleep(RETRY_MS)
      await build(db, index)
    }
  }
}

async function listOfPartitions(db: Kysely<Database>): Promise<Index[]> {
  const { rows } = await sql<{ parent: string; table: string }>`
    select parent, c.relname as table from unnest(${Object.keys(PARTITIONED)}::text[]) parent
    cross join pg_inherits p join pg_class c on c.oid = p.inhrelid
    where p.inhparent = to_regclass('audit_events') and not exists (
      select from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
      where i.inhparent = to_regclass(parent) and x.indrelid = p.inhrelid
    )`.execute(db)
  return rows.map(({ parent, table }) => {
    const name = parent.replace('audit_events', table)
    return { table, name, columns: PARTITIONED[parent] ?? sql``, parent }
  })
}

async function isDone(db: Executor, { name, former, parent }: Index): Promise<boolean> {
  if (former !== undefined)
    return !(await isFound(db, sql`${collated} and i.indexrelid = to_regclass(${former})`))
  if (parent === undefined) return await isValid(db, name)
  return await isFound(
    db,
    sql`select from pg_inherits where inhrelid = to_regclass(${name}) and inhparent = to_regclass(${parent})`,
  )
}

async function isValid(db: Executor, name: string): Promise<boolean> {
  return await isFound(db, sql`select from pg_index where indisvalid and indexrelid = to_regclass(${name})`)
}

async function isFound(db: Executor, query: RawBuilder<unknown>): Promise<boolean> {
  const { rows } = await query.execute(db)
  return rows.length > 0
}

/** Skipped if another instance is building. Waiting for its lock in a transaction would deadlock: builds wait for transactions. */
async function build(db: Kysely<Database>, index: Index): Promise<void> {
  const [name, table] = [sql.table(index.name), sql.table(index.table)]
  const unique = index.former?.endsWith('key') ? sql`unique` : sql``
  await db.connection().execute(async (one) => {
    const { isOurs, lockTimeout } = await one
      .selectNoFrom(({ fn, lit, val }) => [
        fn<boolean>('pg_try_advisory_lock', [lit(LOCK)]).as('isOurs'),
        fn<string>('current_setting', [val('lock_timeout')]).as('lockTimeout'),
      ])
      .executeTakeFirstOrThrow()
    if (!isOurs) return
    try {
      if (await isDone(one, index)) return
      // The build waits for open transactions, and nothing waits for the build.
      await sql`set lock_timeout = 0`.execute(one)
      if (!(await isValid(one, index.name))) {
        await sql`drop index concurrently if exists ${name}`.execute(one)
        await sql`create ${unique} index concurrently ${name} on ${table} ${index.columns}`.execute(one)
      }
      await settle(one, index)
    } finally {
      await sql`select pg_advisory_unlock(${LOCK}), set_config('lock_timeout', ${lockTimeout}, false)`.execute(
        one,
      )
    }
  })
}

/** Requests queue behind this while it waits for its table, so it soon gives up until the next attempt. */
async function settle(one: Kysely<Database>, { table, name, former, parent }: Index): Promise<void> {
  const [on, built] = [sql.table(table), sql.table(name)]
  const statements: RawBuilder<unknown>[] = []
  if (parent !== undefined) statements.push(sql`alter index ${sql.table(parent)} attach partition ${built}`)
  if (former !== undefined) {
    const kept = sql.table(former)
    statements.push(
      sql`alter table ${on} drop constraint if exists ${kept}`,
      sql`drop index if exists ${kept}`,
      sql`alter index ${built} rename to ${kept}`,
    )
    // A primary key cannot use text_pattern_ops, so logical replication finds rows by the index.
    if (former.endsWith('_pkey')) statements.push(sql`alter table ${on} replica identity using index ${kept}`)
  }
  try {
    await one.transaction().execute(async (tx) => {
      await sql`set local lock_timeout = '500ms'`.execute(tx)
      for (const statement of statements) await statement.execute(tx)
    })
  } catch (error) {
    if (codeOf(error) !== '55P03') throw error
  }
}

const collated = sql`
  select i.indexrelid from pg_index i
  where exists (
    select from unnest(i.indcollation::oid[], i.indclass::oid[]) as key (collation_oid, class_oid)
    join pg_opclass c on c.oid = key.class_oid
    where key.collation_oid not in (0, '"C"'::regcollation, '"POSIX"'::regcollation)
      and c.opcname not in ('text_pattern_ops', 'varchar_pattern_ops', 'bpchar_pattern_ops')
  )`

export async function warnOfCollation(db: Executor): Promise<string[]> {
  const { rows } = await sql<{ database: string; was: string; is: string; indexes: string }>`
    select datname as database, datcollversion as was, pg_database_collation_actual_version(d.oid) as is,
      (select string_agg(c.relname, ', ' order by c.relname) from pg_class c where c.oid in (${collated})
        and c.relnamespace not in ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace)) as indexes
    from pg_database d
    where datname = current_database() and datcollversion <> pg_database_collation_actual_version(d.oid)`.execute(
    db,
  )
  return rows.map(
    ({ database, was, is, indexes }) =>
      `The system's collation has changed from version ${was} to ${is}, so these indexes can be out of order: ${indexes}. ` +
      `Run "reindex database ${database}" and "alter database ${database} refresh collation version"`,
  )
}
