import { sql } from 'kysely'
import type { Executor } from './connect.ts'

/** For roles that are no superusers; null if the server does not tell. */
export async function readConnectionCapacity(db: Executor): Promise<number | null> {
  const { rows } = await sql<{ capacity: number | null }>`
    select current_setting('max_connections', true)::int
      - current_setting('superuser_reserved_connections', true)::int as capacity`.execute(db)
  return rows[0]?.capacity ?? null
}
