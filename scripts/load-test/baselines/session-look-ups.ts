import { openConnection } from '../database/connection.ts'
import type { Operation } from '../drive/load.ts'
import type { Target } from '../target/target.ts'
import { openStatements, type Statement } from './statements.ts'

/** Look-ups of one session with its account a statement; undefined if the database is not known. */
export async function openSessionLookUps(
  { databaseUrl, admin: { companyId } }: Target,
  users: number,
  cleanup: AsyncDisposableStack,
): Promise<Operation[] | undefined> {
  if (!databaseUrl) return undefined
  const sessionIds = await findSessionIds(databaseUrl, companyId)
  const statements = Array.from({ length: users }, (_, user) => {
    let turn = user
    return () => {
      turn = (turn + users) % sessionIds.length
      return lookUp(companyId, sessionIds[turn])
    }
  })
  return await openStatements(databaseUrl, statements, cleanup)
}

async function findSessionIds(databaseUrl: string, companyId: string): Promise<string[]> {
  const connection = await openConnection(databaseUrl)
  try {
    const { rows } = await connection.query<{ id: string }>(
      'select session_id as id from sessions where company_id = $1 limit 10000',
      [companyId],
    )
    return rows.map(({ id }) => id)
  } finally {
    await connection.end()
  }
}

function lookUp(companyId: string, sessionId: string | undefined): Statement {
  return {
    name: 'look up',
    text: `select s.generation, s.issued_at, s.expires_at, s.ended_at, s.end_reason, a.*
      from sessions s join accounts a using (company_id, user_id)
      where s.company_id = $1 and s.session_id = $2`,
    values: [companyId, sessionId],
    rows: 1,
  }
}
