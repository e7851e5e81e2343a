import type { Operation } from '../drive/load.ts'
import type { Target } from '../target/target.ts'
import { openLoadTestTables } from './load-test-tables.ts'
import { openStatements, type Statement } from './statements.ts'

/** Updates of one session a statement, by its key; undefined if the database is not known. */
export async function openSessionUpdates(
  { databaseUrl, admin: { companyId } }: Target,
  users: number,
  cleanup: AsyncDisposableStack,
): Promise<Operation[] | undefined> {
  if (!databaseUrl) return undefined
  const sessionIds = await openLoadTestTables(databaseUrl, companyId, cleanup)
  const statements = Array.from({ length: users }, (_, user) => {
    let turn = user
    return () => {
      turn = (turn + users) % sessionIds.length
      return updateSession(companyId, sessionIds[turn])
    }
  })
  return await openStatements(databaseUrl, statements, cleanup)
}

function updateSession(companyId: string, sessionId: string | undefined): Statement {
  return {
    name: 'update',
    text: `update load_test_sessions
      set generation = generation + 1, issued_at = $3, expires_at = $4, rotated_at = $3
      where company_id = $1 and session_id = $2 and ended_at is null`,
    values: [companyId, sessionId, new Date(), new Date()],
    rows: 1,
  }
}
