import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isCollated, REPLACEMENTS, type Replacement } from './byte-order.ts'
import { codeOf } from './faults.ts'
import type { Database } from './schema.ts'

/** Indexes of tables that grow without end. A migration would refuse writes until they are built; here, writes go on. */
const INDEXES = [
  {
    name: 'events_by_feed_position',
    // Many events have the same position, so an entry takes few bytes.
    create: sql`create index concurrently events_by_feed_position on events (feed_position)`,
    drop: sql`drop index concurrently events_by_feed_position`,
  },
]

/** Of audit_events. Migration 0020 makes them without those of the partitions, and partitions that come later have them. */
const PARTITIONED = [
  {
    parent: 'audit_events_by_action',
    columns: sql`(company_id, action text_pattern_ops, occurred_at, audit_id)`,
  },
  {
    parent: 'audit_events_by_actor',
    columns: sql`(company_id, actor text_pattern_ops, occurred_at, audit_id)`,
  },
  {
    parent: 'audit_events_by_actor_and_action',
    columns: sql`(company_id, actor text_pattern_ops, action text_pattern_ops, occurred_at, audit_id)`,
  },
]

type Index = (typeof INDEXES)[number] | Replacement | Awaited<ReturnType<typeof listOfPartitions>>[number]

const LOCK = 1_903_211_786
const RETRY_MS = 1_000

/** Safe in several instances, and after one that was broken off. */
export async function buildIndexes(db: Kysely<Database>, onWait: (text: string) => void): Promise<void> {
  for (const index of [...INDEXES, ...REPLACEMENTS, ...(await listOfPartitions(db))]) {
    for (let waits = 0; !(await isDone(db, index)); waits += 1) {
      if (waits === 1)
        onWait(
          `Waiting for the index ${index.name}: another instance builds it, or a transaction holds its table.`,
        )
      if (waits > 0) await sleep(RETRY_MS)
      await build(db, index)
    }
  }
}

/** The indexes that partitions lack. */
async function listOfPartitions(db: Kysely<Database>) {
  const { rows } = await sql<{ parent: string; partition: string }>`
    select parent, c.relname as partition
    from unnest(${PARTITIONED.map(({ parent }) => parent)}::text[]) parent
    cross join pg_inherits p join pg_class c on c.oid = p.inhrelid
    where p.inhparent = to_regclass('audit_events') and not exists (
      select from pg_inherits i join pg_index x on x.indexrelid = i.inhrelid
      where i.inhparent = to_regclass(parent) and x.indrelid = p.inhrelid
    )`.execute(db)
  return rows.flatMap(({ parent, partition }) => {
    const name = parent.replace('audit_events', partition)
    return PARTITIONED.filter((one) => one.parent === parent).map(({ columns }) => ({
      parent,
      name,
      create: sql`create index concurrently ${sql.table(name)} on ${sql.table(partition)} ${columns}`,
      drop: sql`drop index concurrently ${sql.table(name)}`,
      swap: [sql`alter index ${sql.table(parent)} attach partition ${sql.table(name)}`],
    }))
  })
}

async function isDone(db: Kysely<Database>, index: Index): Promise<boolean> {
  if ('former' in index) return !(await isCollated(db, index.former))
  if ('parent' in index) return await isAttached(db, index)
  return (await stateOf(db, index)) === 'valid'
}

/** Nothing if another instance does. To wait for its lock in a transaction would be a deadlock: the build waits for all that are open. */
async function build(db: Kysely<Database>, index: Index): Promise<void> {
  await db.connection().execute(async (one) => {
    const { rows } = await sql<{ isOurs: boolean; lockTimeout: string }>`
      select pg_try_advisory_lock(${LOCK}::int) as "isOurs", current_setting('lock_timeout') as "lockTimeout"`.execute(
      one,
    )
    if (!rows[0]?.isOurs) return
    try {
      if (await isDone(one, index)) return
      // It waits for transactions that are open, and nobody waits for it.
      await sql`set lock_timeout = 0`.execute(one)
      const state = await stateOf(one, index)
      if (state === 'invalid') await index.drop.execute(one)
      if (state !== 'valid') await index.create.execute(one)
      if ('swap' in index) await swap(one, index.swap)
    } finally {
      await sql`select pg_advisory_unlock(${LOCK}::int), set_config('lock_timeout', ${rows[0].lockTimeout}, false)`.execute(
        one,
      )
    }
  })
}

/** Takes moments. Requests wait behind it while it waits for its table, so it soon leaves it to the next try. */
async function swap(one: Kysely<Database>, statements: RawBuilder<unknown>[]): Promise<void> {
  try {
    await one.transaction().execute(async (tx) => {
      await sql`set local lock_timeout = '500ms'`.execute(tx)
      for (const statement of statements) await statement.execute(tx)
    })
  } catch (error) {
    if (codeOf(error) !== '55P03') throw error
  }
}

async function isAttached(
  db: Kysely<Database>,
  { name, parent }: { name: string; parent: string },
): Promise<boolean> {
  const { rows } = await sql`
    select from pg_inherits where inhrelid = to_regclass(${name}) and inhparent = to_regclass(${parent})`.execute(
    db,
  )
  return rows.length > 0
}

async function stateOf(
  db: Kysely<Database>,
  { name }: Pick<Index, 'name'>,
): Promise<'valid' | 'invalid' | 'missing'> {
  const { rows } = await sql<{ isValid: boolean }>`
    select indisvalid as "isValid" from pg_index where indexrelid = to_regclass(${name})`.execute(db)
  if (!rows[0]) return 'missing'
  return rows[0].isValid ? 'valid' : 'invalid'
}
