import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { type Executor, ping } from './connect.ts'
import { codeOf, isPassing } from './faults.ts'
import type { Database } from './schema.ts'

/** What a start asks of the database: that it answers, that it keeps sessions, how many connections it has; then, whose it is. */

const PATIENCE_MS = 30_000
const RETRY_MS = 500
const SAY_EVERY_MS = 5_000
const POOLING_CHECKS = 10

/** Faults that do not pass by themselves fail at once. @throws the database's error, or the signal's abort */
export async function waitForDatabase(
  db: Executor,
  {
    signal,
    say,
    patienceMs = PATIENCE_MS,
  }: { signal: AbortSignal; say(text: string): void; patienceMs?: number },
): Promise<void> {
  const deadline = performance.now() + patienceMs
  let saidAt = Number.NEGATIVE_INFINITY
  for (;;) {
    try {
      return await ping(db)
    } catch (error) {
      // ENOENT: a Unix socket that is not there yet.
      const isAway = error instanceof Error && (isPassing(error) || codeOf(error) === 'ENOENT')
      if (!isAway || performance.now() >= deadline) throw error
      if (performance.now() - saidAt >= SAY_EVERY_MS) {
        saidAt = performance.now()
        const reason = error.message || (codeOf(error) ?? error.name)
        say(`Waiting for the database, which cannot be reached: ${reason}`)
      }
    }
    await sleep(RETRY_MS, undefined, { signal })
  }
}

export class TransactionPoolingError extends Error {
  override name = 'TransactionPoolingError'
  override message =
    'DATABASE_URL leads to a connection pooler in transaction mode; set its pool mode to session'
}

/** @throws TransactionPoolingError */
export async function requireSessionPooling(db: Kysely<Database>): Promise<void> {
  // Timeouts, prepared statements and the lock of migrations belong to a connection of the server, which a pooler in
  // transaction mode changes between two transactions.
  await db.connection().execute(async (first) => {
    for (let checks = 0; checks < POOLING_CHECKS; checks += 1) {
      const before = await readServerProcess(first)
      // The second takes the server that served the first and keeps it, so such a pooler must serve the first by another
      // one. On a busy pooler a third client can take it before and give it back in time, so this is repeated.
      const after = await db.transaction().execute(async (second) => {
        await readServerProcess(second)
        return await readServerProcess(first)
      })
      if (before !== after) throw new TransactionPoolingError()
    }
  })
}

async function readServerProcess(db: Executor): Promise<number> {
  const query = db.selectNoFrom(({ fn }) => fn<number>('pg_backend_pid').as('pid'))
  return (await query.executeTakeFirstOrThrow()).pid
}

/** For roles that are no superusers; null if the server does not tell. */
export async function readConnectionCapacity(db: Executor): Promise<number | null> {
  const { rows } = await sql<{ capacity: number | null }>`
    select current_setting('max_connections', true)::int
      - current_setting('superuser_reserved_connections', true)::int as capacity`.execute(db)
  return rows[0]?.capacity ?? null
}

/** Whether the database is in the cluster where it was last settled: a dump that was restored elsewhere is not. */
export async function isSettled(db: Executor): Promise<boolean> {
  const query = db.selectNoFrom(({ fn }) => fn<boolean>('is_feed_settled').as('isSettled'))
  return (await query.executeTakeFirstOrThrow()).isSettled
}
