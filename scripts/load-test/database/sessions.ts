import type pg from 'pg'

export interface SessionRow {
  id: string
  userId: string
  issuedAt: Date
  expiresAt: Date
}

const COLUMNS = 'session_id as id, user_id as "userId", issued_at as "issuedAt", expires_at as "expiresAt"'
const ROWS_PER_STATEMENT = 100_000
const DAY_SECONDS = 86_400

/** Inserts sessions that began about a day ago, spread over these users. Returns the first `wanted` of them. */
export async function insertSessions(
  connection: pg.Client,
  companyId: string,
  userIds: string[],
  { count, wanted }: { count: number; wanted: number },
): Promise<SessionRow[]> {
  const returned: SessionRow[] = []
  const firstBegin = Math.floor(Date.now() / 1000) - DAY_SECONDS
  for (let from = 0; from < count; from += ROWS_PER_STATEMENT) {
    const rows = await insertChunk(connection, companyId, userIds, {
      count: Math.min(ROWS_PER_STATEMENT, count - from),
      beginsAt: firstBegin + from / ROWS_PER_STATEMENT,
    })
    // Of millions of rows only those that are wanted stay in memory.
    for (const row of rows.slice(0, wanted - returned.length)) returned.push(row)
  }
  await connection.query('analyze')
  return returned
}

/** `beginsAt` is in Unix seconds. The ids are UUIDs of version 7, in the order of time, as the service makes them. */
async function insertChunk(
  connection: pg.Client,
  companyId: string,
  userIds: string[],
  { count, beginsAt }: { count: number; beginsAt: number },
): Promise<SessionRow[]> {
  const { rows } = await connection.query<SessionRow>(
    `insert into sessions (company_id, session_id, user_id, kind, created_at, issued_at, expires_at,
       max_expires_at, user_agent, ip_address)
     select $1, (lpad(to_hex(($3::float8 * 1000)::bigint + n / 100), 12, '0') || '7' || substr(r, 14))::uuid,
       user_id, 'token', to_timestamp($3), to_timestamp($3), to_timestamp($3) + interval '6 days',
       to_timestamp($3) + interval '29 days', 'load-test/1.0', '192.0.2.1'
     from (
       select n, replace(gen_random_uuid()::text, '-', '') as r,
         ($4::uuid[])[1 + n % cardinality($4::uuid[])] as user_id
       from generate_series(1, $2::int) n
     ) made
     returning ${COLUMNS}`,
    [companyId, count, beginsAt, userIds],
  )
  return rows
}

/** Sessions at random places of the table whose tokens were never rotated. */
export async function findSessions(
  connection: pg.Client,
  companyId: string,
  limit: number,
): Promise<SessionRow[]> {
  const { rows } = await connection.query<SessionRow>(
    `select ${COLUMNS} from sessions
     where company_id = $1 and ended_at is null and generation = 0
     order by random() limit $2`,
    [companyId, limit],
  )
  return rows
}
