import { availableParallelism } from 'node:os'
import type { FastifyBaseLogger } from 'fastify'
import { buildApp } from './app.ts'
import type { Config } from './config.ts'
import { createPasswordHasher } from './crypto/password.ts'
import type { Connection } from './database/connect.ts'
import { migrate } from './database/migrate.ts'
import { pruneAcrossCompanies } from './database/prune.ts'
import { createLogStream, createRegistry } from './http/observe.ts'
import { buildOps } from './http/ops.ts'
import {
  type DemoCompany,
  explain,
  openDatabase,
  openDemoCompany,
  openMasterKeys,
  readConfig,
} from './local.ts'
import { realSystem, type System } from './system.ts'

/** Starts the service: configuration, database, app, listeners; and ends it: drain, close, exit. */

const DRAIN_DEADLINE_MS = 8_000
const EXIT_DEADLINE_MS = 9_500
const PRUNE_EVERY_MS = 3_600_000

async function start(): Promise<void> {
  const config = readConfig(process.env)
  let noteLostConnection = (error: Error) => console.error(`A database connection was lost: ${error.message}`)
  const connection = await openDatabase(config, realSystem, (error) => noteLostConnection(error))
  try {
    const app = await serve(config, connection, realSystem)
    noteLostConnection = (error) => app.log.warn({ err: error }, 'connection lost')
  } catch (error) {
    await connection.close()
    throw error
  }
}

async function serve(config: Config, connection: Connection, system: System) {
  await migrate(connection.maintenance)
  config.masterKeys = await openMasterKeys(config, system)

  // Hashing runs on libuv's threads, and must leave one to name look-ups and files.
  const threads = Number.parseInt(process.env['UV_THREADPOOL_SIZE'] ?? '', 10) || 4
  const hasher = await createPasswordHasher(Math.max(1, Math.min(availableParallelism(), threads - 1)))
  const registry = createRegistry()
  const logStream = createLogStream()
  process.on('exit', () => logStream.end())
  const app = await buildApp({ config, db: connection.db, system, hasher, registry, logStream })
  const ops = buildOps({ connection, registry, hashesWaiting: () => hasher.waiting })

  const stopPruning = startPruning(connection.db, system, app.log)

  let stopping = false
  async function stop(signal: string): Promise<void> {
    if (stopping) process.exit(1)
    stopping = true
    app.log.info({ signal }, 'draining')
    ops.drain()
    stopPruning()
    // Connections that stay silent do not hold up the exit, nor does anything else for long.
    setTimeout(() => app.server.closeAllConnections(), DRAIN_DEADLINE_MS)
    setTimeout(() => process.exit(1), EXIT_DEADLINE_MS)
    await app.close()
    await ops.close()
    await connection.close()
    process.exit(0)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)

  if (config.rateLimitScale !== 1) {
    app.log.warn(`RATE_LIMIT_SCALE=${config.rateLimitScale}: limits are not what they are in production`)
  }
  const demo = config.databaseUrl
    ? null
    : await openDemoCompany(config, { db: connection.db, hasher, system })
  app.log.info(`Operations listener at ${await ops.listen(config.opsListen)}`)
  const address = await app.listen(config.listen)
  logStream.flush()
  if (demo) console.log(welcome(address, demo))
  return app
}

/** Prunes once an hour, each instance at another time of it, however many started together. */
function startPruning(db: Connection['db'], system: System, log: FastifyBaseLogger): () => void {
  const stopping = new AbortController()
  async function prune(): Promise<void> {
    setTimeout(prune, PRUNE_EVERY_MS).unref()
    try {
      const pruned = await pruneAcrossCompanies(db, system.now(), stopping.signal)
      log.info({ pruned }, 'housekeeping')
    } catch (error) {
      log.warn({ err: error }, 'housekeeping failed')
    }
  }
  setTimeout(prune, PRUNE_EVERY_MS * (system.randomBytes(2).readUInt16BE() / 65_536)).unref()
  return () => stopping.abort()
}

function welcome(address: string, { companyId, email, password }: DemoCompany): string {
  return `
gatehouse listens at ${address}/api, with a Postgres of its own.

  company   ${companyId}
  e-mail    ${email}
  password  ${password}

Sign in:

  curl ${address}/api/auth/login -H 'content-type: application/json' \\
    -d '{"companyId":"${companyId}","email":"${email}","password":"${password}"}'

For the walk in the README:

  export BASE=${address}/api COMPANY_ID=${companyId} EMAIL=${email} PASSWORD=${password}
`
}

try {
  await start()
} catch (error) {
  console.error(explain(error) ?? error)
  process.exit(1)
}
