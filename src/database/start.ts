import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { type Executor, ping } from './connect.ts'
import { codeOf, isPassing } from './faults.ts'
import type { Database } from './schema.ts'

const PATIENCE_MS = 30_000
const RETRY_MS = 500
const SAY_EVERY_MS = 5_000
const POOLING_CHECKS = 10

/** Faults that need an operator fail immediately. @throws the database's error, or the signal's abort */
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
      // ENOENT: the Unix socket does not exist yet.
      const isAway = error instanceof Error && (isPassing(error) || codeOf(error) === 'ENOENT')
      if (!isAway || performance.now() >= deadline) throw error
      if (performance.now() - saidAt >= SAY_EVERY_MS) {
        saidAt = performance.now()
        const reason = error.message || (codeOf(error) ?? error.name)
        say(`Waiting for the database, which is unreachable: ${reason}`)
      }
    }
    await sleep(RETRY_MS, undefined, { signal })
  }
}

export class TransactionPoolingError extends Error {
  override name = 'TransactionPoolingError'
  override message =
    'DATABASE_URL leads to a connection pooler in transaction mode. Set its pool mode to session.'
}

/** @throws TransactionPoolingError */
export async function requireSessionPooling(db: Kysely<Database>): Promise<void> {
  // In transaction mode, a pooler changes the server connection, to which timeouts, prepared statements, and locks belong.
  await db.connection().execute(async (first) => {
    for (let checks = 0; checks < POOLING_CHECKS; checks += 1) {
      const before = await readServerProcess(first)
      // The second occupies the first one's server, so such a pooler must switch the first. A busy pooler can hide that.
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

/** For roles that are not superusers; null if the server does not report it. */
export async function readConnectionCapacity(db: Executor): Promise<number | null> {
  const { rows } = await sql<{ capacity: number | null }>`
    select current_setting('max_connections', true)::int
      - current_setting('superuser_reserved_connections', true)::int as capacity`.execute(db)
  return rows[0]?.capacity ?? null
}

/** False after the database was restored, until an operator runs `admin restored`. */
export async function isSettled(db: Executor): Promise<boolean> {
  const query = db.selectNoFrom(({ fn }) => fn<boolean>('is_feed_settled').as('isSettled'))
  return (await query.executeTakeFirstOrThrow()).isSettled
}
