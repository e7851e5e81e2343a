import { type Kysely, sql } from 'kysely'
import type { Executor } from './connect.ts'
import type { Database } from './schema.ts'

const ATTEMPTS = 10

export class TransactionPoolingError extends Error {
  override name = 'TransactionPoolingError'
}

/**
 * Refuses a pooler in transaction mode: it changes the server connection, which has timeouts and locks. Then
 * the second connection takes that of the first one. A busy pooler can hide it, so this is repeated.
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
