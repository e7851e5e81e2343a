import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
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

type Index = (typeof INDEXES)[number]

const LOCK = 1_903_211_786
const RETRY_MS = 1_000

/** Safe in several instances, and after one that was broken off. */
export async function buildIndexes(db: Kysely<Database>, onWait: (text: string) => void): Promise<void> {
  for (const index of INDEXES) {
    for (let waits = 0; (await stateOf(db, index)) !== 'valid'; waits += 1) {
      if (waits === 1) onWait(`Waiting for the index ${index.name}, which another instance builds.`)
      if (waits > 0) await sleep(RETRY_MS)
      await build(db, index)
    }
  }
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
      // It waits for transactions that are open, and nobody waits for it.
      await sql`set lock_timeout = 0`.execute(one)
      const state = await stateOf(one, index)
      if (state === 'invalid') await index.drop.execute(one)
      if (state !== 'valid') await index.create.execute(one)
    } finally {
      await sql`select pg_advisory_unlock(${LOCK}::int), set_config('lock_timeout', ${rows[0].lockTimeout}, false)`.execute(
        one,
      )
    }
  })
}

async function stateOf(db: Kysely<Database>, { name }: Index): Promise<'valid' | 'invalid' | 'missing'> {
  const { rows } = await sql<{ isValid: boolean }>`
    select indisvalid as "isValid" from pg_index where indexrelid = to_regclass(${name})`.execute(db)
  if (!rows[0]) return 'missing'
  return rows[0].isValid ? 'valid' : 'invalid'
}
