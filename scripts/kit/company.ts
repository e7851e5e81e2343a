import type pg from 'pg'
import type { Credentials, LiveSession } from './operations.ts'
import { type Operator, openOperator, type ServiceSettings } from './operator.ts'
import { openConnection } from './postgres.ts'

/** Companies with many users and sessions. Creating them through the service, not in the database, would take hours. */

export interface Company {
  operator: Operator
  connection: pg.Client
  admin: Credentials
  /** Members with the admin's password. */
  people: Credentials[]
  /** Creates sessions that began about a day ago, and returns the first `wanted`. */
  addSessions(count: number, wanted?: number): Promise<LiveSession[]>
}

export async function openCompany(
  settings: ServiceSettings,
  cleanup: AsyncDisposableStack,
): Promise<Company> {
  const operator = await openOperator(settings, cleanup)
  const connection = await openConnection(settings.databaseUrl)
  cleanup.defer(() => connection.end())
  const admin = await operator.createCompany()
  const { companyId } = admin
  const emails = await insertAnalysts(connection, companyId)
  const users = await readUsers(connection, companyId)
  return {
    operator,
    connection,
    admin,
    people: emails.map((email) => ({ ...admin, email })),
    async addSessions(count, wanted = count) {
      const rows = await insertSessions(connection, companyId, [...users.keys()], { count, wanted })
      return await Promise.all(
        rows.map(async ({ id, userId, issuedAt, expiresAt }) => {
          const user = users.get(userId)
          if (!user) throw new Error(`session ${id} does not belong to a user of its company`)
          const claims = { companyId, userId, sessionId: id, issuedAt, expiresAt, ...user }
          return { id, ...(await operator.signTokens(claims)) }
        }),
      )
    },
  }
}

const ANALYSTS = 1_000

/** Adds analysts with the admin's password to a company that has only its admin. Returns their emails. */
async function insertAnalysts(connection: pg.Client, companyId: string): Promise<string[]> {
  const { rows } = await connection.query<{ email: string }>(
    `insert into users (company_id, user_id, email, name, role, assignments, status, password_hash,
       email_verified_at, created_at)
     select company_id, gen_random_uuid(), 'user' || n || '@load.example', name, 'analyst', assignments, status,
       password_hash, email_verified_at, created_at
     from users, generate_series(1, $2::int) n
     where company_id = $1
     returning email`,
    [companyId, ANALYSTS],
  )
  return rows.map(({ email }) => email)
}

async function readUsers(connection: pg.Client, companyId: string) {
  const { rows } = await connection.query<{ id: string; role: string; permissions: string[] }>(
    'select user_id as id, role, permissions from accounts where company_id = $1',
    [companyId],
  )
  return new Map(rows.map(({ id, ...user }) => [id, user]))
}

interface SessionRow {
  id: string
  userId: string
  issuedAt: Date
  expiresAt: Date
}

const ROWS_PER_STATEMENT = 100_000
const DAY_SECONDS = 86_400

async function insertSessions(
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
    // Of millions of rows, only the wanted ones stay in memory.
    for (const row of rows.slice(0, wanted - returned.length)) returned.push(row)
  }
  await connection.query('analyze sessions')
  return returned
}

/** `beginsAt` is in Unix seconds. Like the service's, the IDs are UUIDs of version 7, in the order of time. */
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
     returning session_id as id, user_id as "userId", issued_at as "issuedAt", expires_at as "expiresAt"`,
    [companyId, count, beginsAt, userIds],
  )
  return rows
}
