import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbeddedPostgres } from '../../src/process/local/postgres.ts'
import { findPostmaster } from './processes.ts'

export interface Postgres {
  url: string
  /** For files that are needed while this server is used. */
  folder: string
  /** Its main process, if it runs on this machine. */
  pid: number | undefined
}

/** The server of DATABASE_URL. Without it, an embedded one with fsync, as in production. */
export async function openPostgres(cleanup: AsyncDisposableStack): Promise<Postgres> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-scripts-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))
  // If root starts it, the embedded Postgres runs as a different user, who must be able to reach its data.
  await chmod(folder, 0o711)
  const url = process.env['DATABASE_URL']
  if (url) return { url, folder, pid: undefined }
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), randomBytes })
  cleanup.defer(() => server.stop())
  return { url: server.url, folder, pid: findPostmaster(folder) }
}

export async function createDatabase(postgres: Postgres, cleanup: AsyncDisposableStack): Promise<string> {
  const name = `gatehouse_scripts_${randomBytes(6).toString('hex')}`
  await runStatement(postgres.url, `create database ${name}`)
  cleanup.defer(() => runStatement(postgres.url, `drop database ${name} with (force)`))
  return Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href
}

export async function openConnection(url: string): Promise<pg.Client> {
  const connection = new pg.Client({ connectionString: url })
  await connection.connect()
  return connection
}

export async function runStatement(url: string, statement: string): Promise<void> {
  const connection = await openConnection(url)
  try {
    await connection.query(statement)
  } finally {
    await connection.end()
  }
}

/** The bytes in the write-ahead log so far, and in tables with their indexes. */
export interface Stored {
  log: number
  tables: number
}

export async function readStored(databaseUrl: string): Promise<Stored> {
  const connection = await openConnection(databaseUrl)
  try {
    const { rows } = await connection.query<Stored>(
      `select (pg_current_wal_insert_lsn() - '0/0')::float8 as log,
        pg_database_size(current_database())::float8 as tables`,
    )
    return rows[0] ?? { log: 0, tables: 0 }
  } finally {
    await connection.end()
  }
}
