import pg from 'pg'

export async function openConnection(url: string): Promise<pg.Client> {
  const connection = new pg.Client({ connectionString: url })
  await connection.connect()
  return connection
}

/** Runs one statement on a connection of its own. */
export async function runStatement(url: string, statement: string): Promise<void> {
  const connection = await openConnection(url)
  try {
    await connection.query(statement)
  } finally {
    await connection.end()
  }
}
