import { type Kysely, sql } from 'kysely'
import type { Executor } from './connect.ts'
import type { Database } from './schema.ts'

/** Each takes five round trips. */
const ATTEMPTS = 10

/** A pooler that gives each transaction another connection of the server. */
export class TransactionPoolingError extends Error {
  override name = 'TransactionPoolingError'
}

/**
 * Refuses a pooler in transaction mode. Timeouts, prepared statements and the lock of migrations belong to a
 * connection of the server, which such a pooler changes between two transactions.
 *
 * The second connection takes the server that served the first one and keeps it during a transaction. So a pooler in
 * transaction mode has to serve the first one by another server. On a busy pooler another client can take that server
 * before the second connection does, and give it back in time, so this is repeated.
 * @throws TransactionPoolingError
 */
export async function requireSessionPooling(db: Kysely<Database>): Promise<void> {
  await db.connection().execute(async (first) => {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const before = await readServerProcess(first)
      const after = await db.transaction().execute(async (second) => {
        await readServerProcess(second)
        return await readServerProcess(first)
      })
      if (before !== after) {
        throw new TransactionPoolingError(
          'DATABASE_URL leads to a connection pooler in transaction mode; set its pool mode to session',
        )
      }
    }
  })
}

async function readServerProcess(db: Executor): Promise<number | undefined> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)
  return rows[0]?.pid
}
