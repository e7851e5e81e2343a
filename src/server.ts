import { availableParallelism } from 'node:os'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import type { Connection } from './database/connect.ts'
import { migrate } from './database/migrate.ts'
import { createLogStream } from './http/logs.ts'
import { createRegistry } from './http/observe.ts'
import { buildOps } from './http/ops.ts'
import { createLimitedHasher } from './limits/hashing.ts'
import { openDemoCompany, welcome } from './local/demo-company.ts'
import { pruneAcrossCompanies } from './operator/housekeeping.ts'
import { explain, type Opened, open } from './startup.ts'
import { randomFraction, realSystem, type System } from './system.ts'

/** The process: opens configuration, database, app and listeners, in this order. A signal ends it. */

const DRAIN_DEADLINE_MS = 8_000
const EXIT_DEADLINE_MS = 9_500
const PRUNE_EVERY_MS = 3_600_000

async function start(system: System): Promise<void> {
  let noteLostConnection = (error: Error) => console.error(`A database connection was lost: ${error.message}`)
  const opened = await open(process.env, system, (error) => noteLostConnection(error))
  try {
    const app = await serve(opened, system)
    noteLostConnection = (error) => app.log.warn({ err: error }, 'connection lost')
  } catch (error) {
    await opened.connection.close()
    throw error
  }
}

async function serve({ config, connection }: Opened, system: System): Promise<FastifyInstance> {
  await migrate(connection.maintenance)
  const { db } = connection
  // Passwords are hashed on libuv's threads. One thread is left for DNS look-ups and files.
  const hasher = await createLimitedHasher(Math.max(1, Math.min(availableParallelism(), config.threads - 1)))
  const registry = createRegistry()
  const logStream = createLogStream()
  process.on('exit', () => logStream.end())
  const app = await buildApp({ config, db, system, hasher, registry, logStream })
  const ops = buildOps({ connection, registry, hashesWaiting: () => hasher.waiting })
  stopOnSignals(app, ops, connection, startPruning(db, system, app.log))

  if (config.rateLimitScale !== 1) {
    app.log.warn(`RATE_LIMIT_SCALE=${config.rateLimitScale}: limits are not what they are in production`)
  }
  const demo = config.databaseUrl ? null : await openDemoCompany(config.dataDir, { db, hasher, system })
  app.log.info(`Operations listener at ${await ops.listen(config.opsListen)}`)
  const url = await app.listen(config.listen)
  logStream.flush()
  if (demo) console.log(welcome(url, demo))
  return app
}

/** On SIGTERM or SIGINT, finishes the requests in progress and exits. A second signal exits at once. */
function stopOnSignals(
  app: FastifyInstance,
  ops: ReturnType<typeof buildOps>,
  connection: Connection,
  stopPruning: () => void,
): void {
  let isStopping = false
  async function stop(signal: string): Promise<void> {
    if (isStopping) process.exit(1)
    isStopping = true
    app.log.info({ signal }, 'draining')
    ops.drain()
    stopPruning()
    // These deadlines bound the wait for silent connections, and for everything else.
    setTimeout(() => app.server.closeAllConnections(), DRAIN_DEADLINE_MS)
    setTimeout(() => process.exit(1), EXIT_DEADLINE_MS)
    await app.close()
    await ops.close()
    await connection.close()
    process.exit(0)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}

/** Prunes once an hour. The first time is random, so that instances do not prune all at once. */
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
  setTimeout(prune, PRUNE_EVERY_MS * randomFraction(system)).unref()
  return () => stopping.abort()
}

try {
  await start(realSystem)
} catch (error) {
  console.error(explain(error) ?? error)
  process.exit(1)
}
