import type pg from 'pg'
import { openConnection } from '../database/connection.ts'
import { requireCorrect } from '../drive/failure.ts'
import type { Operation } from '../drive/load.ts'

/** A prepared statement: each connection prepares it once under its name. */
export interface Statement {
  name: string
  text: string
  values: unknown[]
  /** How many rows it must affect. */
  rows: number
}

/** Statements straight through pg. Each virtual user has its own connection and its own `nextStatement`. */
export async function openStatements(
  databaseUrl: string,
  nextStatement: (() => Statement)[],
  cleanup: AsyncDisposableStack,
): Promise<Operation[]> {
  const openOne = async (next: () => Statement): Promise<Operation> => {
    const connection = await openConnection(databaseUrl)
    cleanup.defer(() => connection.end())
    return () => run(connection, next())
  }
  return await Promise.all(nextStatement.map(openOne))
}

async function run(connection: pg.Client, { rows, ...query }: Statement): Promise<void> {
  const { rowCount } = await connection.query(query)
  requireCorrect(rowCount === rows, 'another number of rows')
}
