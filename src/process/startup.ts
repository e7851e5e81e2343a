import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type Config, ConfigError, loadConfig, type MasterKey } from '../config/config.ts'
import { mergeVariables, readEnvFile } from '../config/files.ts'
import { DecryptionError } from '../crypto/sealing.ts'
import { type Connection, connect } from '../database/connect.ts'
import { ConnectionError, codeOf, isUnavailable } from '../database/faults.ts'
import { EncodingError, MigrationOrderError } from '../database/migrate.ts'
import { TransactionPoolingError } from '../database/start.ts'
import { Problem } from '../errors.ts'
import { PagesError } from '../http/built-pages.ts'
import { HousekeepingError } from '../operator/retention.ts'
import type { System } from '../system.ts'
import { StartError } from './listen.ts'
import { MASTER_KEY_FILE, openLocalMasterKey } from './local/data-folder.ts'
import { startEmbeddedPostgres } from './local/postgres.ts'

/** OpenSSL, openssl-verification-options. */
const UNKNOWN_CA =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(_LOCALLY)?))$/

const PROJECT = resolve(import.meta.dirname, '../..')

export type Opened = Awaited<ReturnType<typeof open>>

interface Service {
  onIdleError(error: Error): void
  signal: AbortSignal
}

/** @throws an error for `explain` */
export async function open(env: NodeJS.ProcessEnv, system: System, service?: Service) {
  const { variables, config } = load(env)
  const { connection, databaseUrl } = await openDatabase(config, system, service)
  try {
    const masterKeys = await openMasterKeys(config, system, service)
    return { config: { ...config, masterKeys }, connection, databaseUrl, env: variables }
  } catch (error) {
    await connection.close()
    throw error
  }
}

export async function openForMigrations(env: NodeJS.ProcessEnv, system: System) {
  const { config } = load(env, ['DATABASE_URL'])
  return { config, connection: (await openDatabase(config, system)).connection }
}

function load(env: NodeJS.ProcessEnv, required?: readonly string[]) {
  const { variables, faults } = readVariables(env)
  const config = loadConfig(variables, required, faults)
  return { variables, config: { ...config, dataDir: resolve(PROJECT, config.dataDir) } }
}

export function readVariables(env: NodeJS.ProcessEnv) {
  const { variables, faults } = readEnvFile(join(PROJECT, '.env'))
  // libuv reads this one from the environment only.
  return { variables: mergeVariables({ ...variables, UV_THREADPOOL_SIZE: undefined }, env), faults }
}

/** `close` also stops the embedded Postgres if this process owns it. */
async function openDatabase(
  { databaseUrl, databasePoolSize: poolSize, dataDir }: Config,
  { randomBytes }: System,
  service?: Service,
): Promise<{ connection: Connection; databaseUrl: string }> {
  const options = { poolSize, onIdleError: service?.onIdleError }
  if (databaseUrl) return { connection: connect({ url: databaseUrl, ...options }), databaseUrl }

  const { signal } = service ?? {}
  const postgres = await startEmbeddedPostgres({ dataDir, randomBytes, isCommand: !service, signal })
  const connection = connect({ url: postgres.url, ...options })
  async function close(): Promise<void> {
    await connection.close()
    await postgres.stop()
  }
  return { connection: { ...connection, close }, databaseUrl: postgres.url }
}

async function openMasterKeys(
  { masterKeys, databaseUrl, dataDir }: Config,
  system: System,
  service?: Service,
): Promise<MasterKey[]> {
  if (masterKeys.length > 0) return masterKeys
  // The service could not open what a command seals with a new key.
  if (databaseUrl && !service && !existsSync(join(dataDir, MASTER_KEY_FILE)))
    throw new ConfigError('MASTER_KEYS: must be set to the keys of the service that uses this database')
  return [await openLocalMasterKey(dataDir, system)]
}

/** A text for the operator, or null for a failure that needs its stack. */
export function explain(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  const isExplained = [
    ConfigError,
    PagesError,
    Problem,
    TransactionPoolingError,
    HousekeepingError,
    EncodingError,
    StartError,
    MigrationOrderError,
  ].some((known) => error instanceof known)
  if (isExplained) return error.message
  if (error instanceof DecryptionError) {
    return `Cannot decrypt the secrets in the database: ${error.message}. Set MASTER_KEYS to the keys that encrypted them.`
  }
  const code = codeOf(error)
  if (code === 'ENOSPC') return `The disk is full: ${error.message}.`
  if (code === '53100') return `The database's disk is full: ${error.message}.`
  if (code === 'EADDRINUSE') return `${error.message}. Set PORT, OPS_PORT, and PLATFORM_PORT to free ports.`
  if (code === '42501') {
    return `The database denies access: ${error.message}. Run \`npm run admin -- migrate\` as the owner of the tables, other commands as gatehouse_operator, and the service as gatehouse. deploy/roles.sql grants their rights.`
  }
  if (code === '23505') {
    return `Two rows in the database have the same key: ${error.message}. This happens after a move to a system with a different collation. Merge or delete one of them, then start again.`
  }
  if (UNKNOWN_CA.test(code ?? '')) {
    return `The database's certificate is from an unknown CA: ${error.message}. Set sslrootcert in DATABASE_URL, or NODE_EXTRA_CA_CERTS in the environment, to the file with the CA's certificate.`
  }
  if (/^(CERT|ERR_TLS_CERT)_/.test(code ?? '')) {
    return `The database's certificate is invalid: ${error.message}.`
  }
  if (error instanceof ConnectionError) {
    return `Cannot connect to the database: ${error.message || code}. Check DATABASE_URL, and that Postgres runs there.`
  }
  if (isUnavailable(error))
    return `The database failed during the start: ${error.message || code}. Start again.`
  return null
}
