import { openConnection, runStatement } from '../database/connection.ts'

const SESSIONS = 10_000

/** Creates tables like those of the service, with their indexes. Returns the ids of the sessions in them. */
export async function openLoadTestTables(
  databaseUrl: string,
  companyId: string,
  cleanup: AsyncDisposableStack,
): Promise<string[]> {
  // The database may belong to a service that continues to run.
  cleanup.defer(() => runStatement(databaseUrl, 'drop table if exists load_test_sessions, load_test_events'))
  const connection = await openConnection(databaseUrl)
  try {
    await connection.query(
      'create table if not exists load_test_sessions (like sessions including all) with (fillfactor = 80)',
    )
    await connection.query('create table if not exists load_test_events (like events including all)')
    const { rows } = await connection.query<{ id: string }>(
      `insert into load_test_sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at,
         max_expires_at)
       select $1::uuid, gen_random_uuid(), $1::uuid, 'token', now(), now(), now(), now()
       from generate_series(1, $2::int)
       returning session_id as id`,
      [companyId, SESSIONS],
    )
    // Otherwise the planner takes the index of live sessions, and reads all of the company.
    await connection.query('analyze load_test_sessions')
    return rows.map(({ id }) => id)
  } finally {
    await connection.end()
  }
}
