import type pg from 'pg'
import type { Credentials, LiveSession } from '../operations/credentials.ts'
import { openConnection } from './connection.ts'
import { type Operator, openOperator, type ServiceSettings } from './operator.ts'
import { findSessions, insertSessions, type SessionRow } from './sessions.ts'
import { insertAnalysts, readUsers, type User } from './users.ts'

/** A company that was created for this load test, with its users. */
export interface Company {
  operator: Operator
  connection: pg.Client
  admin: Credentials
  /** Users who may sign in. */
  people: Credentials[]
  /** All users, the admin included, by id. */
  users: Map<string, User>
  /** Ids of the sessions that are in use. */
  taken: Set<string>
}

/** Creates the company and its sessions directly in the database: through the service it would take hours. */
export async function openCompany(
  settings: ServiceSettings,
  sessions: number,
  cleanup: AsyncDisposableStack,
): Promise<Company> {
  const operator = await openOperator(settings, cleanup)
  const connection = await openConnection(settings.databaseUrl)
  cleanup.defer(() => connection.end())
  const admin = await operator.createCompany()
  const emails = await insertAnalysts(connection, admin.companyId)
  const users = await readUsers(connection, admin.companyId)
  const company: Company = {
    operator,
    connection,
    admin,
    people: emails.map((email) => ({ ...admin, email })),
    users: new Map(users.map((user) => [user.id, user])),
    taken: new Set(),
  }
  await addSessions(company, sessions)
  return company
}

/** Sessions that nothing else uses: existing ones at random, with new ones if these are too few, or only new ones. */
export async function takeSessions(
  company: Company,
  count: number,
  which: 'existing' | 'new',
): Promise<LiveSession[]> {
  const found = which === 'existing' ? await findUnused(company, count) : []
  const missing = count - found.length
  const rows = missing > 0 ? [...found, ...(await addSessions(company, missing, missing))] : found
  const sessions: LiveSession[] = []
  for (const row of rows) {
    company.taken.add(row.id)
    sessions.push(await toLiveSession(company, row))
  }
  return sessions
}

function addSessions(
  { connection, admin, users }: Company,
  count: number,
  wanted = 0,
): Promise<SessionRow[]> {
  return insertSessions(connection, admin.companyId, [...users.keys()], { count, wanted })
}

async function findUnused({ connection, admin, taken }: Company, count: number): Promise<SessionRow[]> {
  const rows = await findSessions(connection, admin.companyId, count + taken.size)
  return rows.filter(({ id }) => !taken.has(id)).slice(0, count)
}

async function toLiveSession({ operator, admin, users }: Company, row: SessionRow): Promise<LiveSession> {
  const { id, userId, issuedAt, expiresAt } = row
  const user = users.get(userId)
  if (!user) throw new Error(`session ${id} is of no user of its company`)
  const { companyId } = admin
  const { role, permissions } = user
  const claims = { companyId, userId, sessionId: id, role, permissions, issuedAt, expiresAt }
  return { id, accessTokenIssuedAt: Date.now(), ...(await operator.signTokens(claims)) }
}
