import { existsSync, readFileSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import type { Kysely } from 'kysely'
import { createCompany, generatePassword } from './company/service.ts'
import { type Config, ConfigError, loadConfig, type MasterKey } from './config.ts'
import type { PasswordHasher } from './crypto/password.ts'
import { UnsealableError } from './crypto/sealing.ts'
import { type Connection, connect } from './database/connect.ts'
import { startEmbeddedPostgres } from './database/embedded/server.ts'
import { codeOf, isUnavailable } from './database/faults.ts'
import type { Database } from './database/schema.ts'
import { Problem } from './errors.ts'
import { newId, type System } from './system.ts'

/** What a machine without configuration gets, so that one command starts everything. Never in production. */

const DEMO_EMAIL = 'admin@demo.example'

const PROJECT = resolve(import.meta.dirname, '..')

/**
 * The configuration of an environment and, below it, of the project's `.env`.
 * @throws ConfigError
 */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const file = join(PROJECT, '.env')
  const config = loadConfig({ ...(existsSync(file) && parseEnv(readFileSync(file, 'utf8'))), ...env })
  return { ...config, dataDir: resolve(PROJECT, config.dataDir) }
}

/** Connects to the configured Postgres, or starts the embedded one, which `close` stops again. */
export async function openDatabase(
  config: Config,
  system: System,
  onIdleError?: (error: Error) => void,
): Promise<Connection> {
  const options = { poolSize: config.databasePoolSize, ...(onIdleError && { onIdleError }) }
  if (config.databaseUrl) return connect({ url: config.databaseUrl, ...options })

  const { dataDir } = config
  const postgres = await startEmbeddedPostgres({ dataDir, randomBytes: system.randomBytes })
  const connection = connect({ url: postgres.url, ...options })
  return {
    ...connection,
    async close() {
      await connection.close()
      await postgres.stop()
    },
  }
}

/** The configured master keys, or one that is made once and kept in the data folder. */
export async function openMasterKeys({ masterKeys, dataDir }: Config, system: System): Promise<MasterKey[]> {
  if (masterKeys.length > 0) return masterKeys
  const encoded = await readOrCreate(dataDir, 'master-key', () => system.randomBytes(32).toString('base64'))
  return [{ id: 'local', key: Buffer.from(encoded, 'base64') }]
}

export interface DemoCompany {
  companyId: string
  email: string
  password: string
}

/** A company to try things with. Its credentials are kept in the data folder and not in the database. */
export async function openDemoCompany(
  { dataDir }: Config,
  context: { db: Kysely<Database>; hasher: PasswordHasher; system: System },
): Promise<DemoCompany> {
  const { system } = context
  const text = await readOrCreate(dataDir, 'demo-company.json', () =>
    JSON.stringify({ companyId: newId(system), email: DEMO_EMAIL, password: generatePassword(system) }),
  )
  const demo: DemoCompany = JSON.parse(text)
  await createCompany(context, {
    companyId: demo.companyId,
    name: 'Demo Company',
    adminEmail: demo.email,
    adminName: 'Demo Admin',
    password: demo.password,
  })
  return demo
}

/** The text of a file that only its owner may read; of two who make it at once, one wins. */
async function readOrCreate(folder: string, name: string, make: () => string): Promise<string> {
  await mkdir(folder, { recursive: true })
  const path = join(folder, name)
  try {
    await writeFile(path, make(), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
  }
  return await readFile(path, 'utf8')
}

/** What a person can mend, told in a sentence; null for what needs a stack. */
export function explain(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  if (error instanceof ConfigError || error instanceof Problem) return error.message
  if (error instanceof UnsealableError) {
    return `What is sealed in the database cannot be opened: ${error.message}. Set the MASTER_KEYS that this database was made with.`
  }
  const code = codeOf(error)
  if (code === 'EADDRINUSE') return `${error.message}: set PORT and OPS_PORT to free ones.`
  if (code === '42501') {
    return `The database refuses: ${error.message}. Grant the role of DATABASE_URL select, insert, update and delete on all tables.`
  }
  // The server refused us (classes 28 and 3D), or there is none.
  if (isUnavailable(error) || /^(28|3D)...$/.test(code ?? '')) {
    return `The database cannot be used: ${error.message || code}. Check DATABASE_URL, and that Postgres runs there.`
  }
  return null
}
