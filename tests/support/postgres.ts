import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { runStatement } from '../../scripts/kit/postgres.ts'
import { connect } from '../../src/database/connect.ts'
import { migrate } from '../../src/database/migrate.ts'
import { startEmbeddedPostgres } from '../../src/process/local/postgres.ts'

/** One embedded Postgres per run. Each test service has its own database. */

declare module 'vitest' {
  interface ProvidedContext {
    /** The server on which tests create databases from the migrated template. */
    serverUrl: string
    template: string
    /** For files that are not needed after the run. */
    folder: string
  }
}

const IN_MEMORY = '/dev/shm'

export async function startPostgres(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(await fastFolder(), 'gatehouse-tests-'))
  // If the tests run as root, the account of Postgres must be able to enter the folder.
  await chmod(folder, 0o711)
  const { url, stop } = await startEmbeddedPostgres({
    dataDir: join(folder, 'data'),
    randomBytes,
    // Tests kill the service, never the machine, so they do not depend on flushed commits.
    settings: { fsync: 'off', synchronous_commit: 'off' },
  })
  const serverUrl = await createRoles(url)
  const template = await createTemplate(serverUrl)
  project.provide('serverUrl', serverUrl)
  project.provide('template', template)
  project.provide('folder', folder)
  return async () => {
    await stop()
    await rm(folder, { recursive: true, force: true })
  }
}

const ROLES = ['gatehouse_owner', 'gatehouse', 'gatehouse_operator'] as const
const ROLE_PASSWORD = 'of a role'
// Tests open thousands of connections, and each one derives a key from the password.
const CHEAPLY = 'set scram_iterations = 1'

/** As deploy/roles.sql does. Returns the URL of a superuser, because the embedded one has the name of the service's role. */
async function createRoles(url: string): Promise<string> {
  const superuser = Object.assign(new URL(url), { username: 'postgres' })
  const { password } = superuser
  await runStatement(url, `${CHEAPLY}; create role postgres superuser login password '${password}'`)
  const create = ROLES.map((role) => `create role ${role} login password '${ROLE_PASSWORD}'`)
  const statements = ['alter role gatehouse rename to embedded', CHEAPLY, ...create]
  await runStatement(superuser.href, `${statements.join('; ')}; grant gatehouse to gatehouse_operator`)
  return superuser.href
}

/** Created as in production: the roles' rights come before the owner's tables. */
async function createTemplate(serverUrl: string): Promise<string> {
  const name = 'gatehouse_template'
  await runStatement(serverUrl, `create database ${name} owner gatehouse_owner`)
  const url = databaseUrl(serverUrl, name)
  await runStatement(url, await readRights())
  // Tests add tables and sequences that triggers write.
  await runStatement(url, 'alter default privileges grant all on tables to gatehouse')
  await runStatement(url, 'alter default privileges grant all on sequences to gatehouse')
  const connection = connect({ url: asRole(url, 'gatehouse_owner'), poolSize: 2 })
  await migrate(connection.db)
  await connection.close()
  return name
}

/** The part of deploy/roles.sql that runs in the database. Only psql can run the rest. */
async function readRights(): Promise<string> {
  const file = await readFile(join(import.meta.dirname, '../../deploy/roles.sql'), 'utf8')
  return file.slice(file.indexOf('begin;'))
}

/** The URL for a role of deploy/roles.sql. */
export function asRole(url: string, role: (typeof ROLES)[number]): string {
  return Object.assign(new URL(url), { username: role, password: ROLE_PASSWORD }).href
}

/**
 * A file system in memory, if it has room. Tests create and drop hundreds of databases with some 450 files each.
 * After many recent deletions, ext4 takes 60 to 300 ms a database instead of 15.
 */
export async function fastFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(IN_MEMORY).catch(() => ({ bavail: 0, bsize: 0 }))
  return bavail * bsize >= 4 * 1024 ** 3 ? IN_MEMORY : tmpdir()
}

export function databaseUrl(serverUrl: string, database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  return url.href
}

/** Ends all connections to a database, and blocks new ones. */
export async function cutOff(serverUrl: string, database: string): Promise<void> {
  await runStatement(serverUrl, `alter database ${database} allow_connections false`)
  await runStatement(
    serverUrl,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${database}'`,
  )
}

/** Copies the database as it is now, and returns the copy's name. Cuts off its users while it copies. */
export async function copyDatabase(serverUrl: string, database: string): Promise<string> {
  const name = `gatehouse_${randomBytes(6).toString('hex')}`
  try {
    await cutOff(serverUrl, database)
    await runStatement(
      serverUrl,
      `create database ${name} template ${database} owner gatehouse_owner strategy file_copy`,
    )
  } finally {
    await runStatement(serverUrl, `alter database ${database} allow_connections true`)
  }
  return name
}
