import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startEmbeddedPostgres } from '../../../src/local/postgres/server.ts'
import { findPostmaster } from '../process-usage.ts'
import { runStatement } from './connection.ts'

/** A Postgres server on which databases can be created. */
export interface Postgres {
  url: string
  /** For files that the load test needs as long as it uses this server. */
  folder: string
  /** Its main process, if it runs on this machine. */
  pid: number | undefined
}

/** The server of DATABASE_URL, or else an embedded one with fsync, as in production. */
export async function openPostgres(cleanup: AsyncDisposableStack): Promise<Postgres> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-load-test-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))
  // When started by root, the embedded Postgres runs as another user, who must reach its data.
  await chmod(folder, 0o711)
  const url = process.env['DATABASE_URL']
  if (url) return { url, folder, pid: undefined }
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), randomBytes })
  cleanup.defer(() => server.stop())
  return { url: server.url, folder, pid: findPostmaster(folder) }
}

/** Creates an empty database and returns its URL. */
export async function createDatabase(postgres: Postgres, cleanup: AsyncDisposableStack): Promise<string> {
  const name = `gatehouse_load_${randomBytes(6).toString('hex')}`
  await runStatement(postgres.url, `create database ${name}`)
  cleanup.defer(() => runStatement(postgres.url, `drop database ${name} with (force)`))
  return Object.assign(new URL(postgres.url), { pathname: `/${name}` }).href
}
