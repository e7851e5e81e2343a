import { openConnection } from './connection.ts'

/** In bytes: what Postgres has written to its write-ahead log until now, and what tables and indexes take. */
export interface Stored {
  log: number
  tables: number
}

/** Null where the database is not known. */
export async function readStored(databaseUrl: string | undefined): Promise<Stored | null> {
  if (databaseUrl === undefined) return null
  const connection = await openConnection(databaseUrl)
  try {
    const { rows } = await connection.query<Stored>(
      `select (pg_current_wal_insert_lsn() - '0/0')::float8 as log,
        pg_database_size(current_database())::float8 as tables`,
    )
    return rows[0] ?? null
  } finally {
    await connection.end()
  }
}
