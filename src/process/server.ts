import cluster from 'node:cluster'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import { createPasswordHasher } from '../crypto/password.ts'
import { warnOfCollation } from '../database/byte-order.ts'
import type { Connection } from '../database/connect.ts'
import { migrate } from '../database/migrate.ts'
import { AUDIT_POOL_SIZE } from '../database/settings.ts'
import { readConnectionCapacity, requireSessionPooling, waitForDatabase } from '../database/start.ts'
import { findPages } from '../http/built-pages.ts'
import { createLogStream, type LogStream } from '../http/log-stream.ts'
import { createLog, type Log } from '../http/logs.ts'
import { createRegistry, showBuild, showLog, showProcess } from '../http/metrics.ts'
import { buildOps } from '../http/ops.ts'
import { realSystem, type System } from '../system.ts'
import { startBackground } from './background.ts'
import { openDemoCompany, welcome } from './local/demo-company.ts'
import { type Serving, startServing } from './serving.ts'
import { explain, type Opened, open } from './startup.ts'
import { findFreePort, listenAs } from './workers/free-port.ts'
import { createWorkers, type Workers } from './workers/primary.ts'
import { openWorkerEnd } from './workers/worker.ts'

/**
 * The process: it opens configuration, database and listeners, and serves until a signal. Then it drains: it
 * takes requests for a while longer, finishes them, and exits. With several WORKERS it is their primary.
 */

/** A terminal and npm both pass Ctrl-C on: within this time, that is one signal. */
const SAME_SIGNAL_MS = 1_000
const EXIT_DEADLINE_MS = 9_500

interface Context extends Opened {
  system: System
  logStream: LogStream
  log: Log
  stop: Stop
}

interface Stop {
  signal: AbortSignal
  now(reason: string): void
}

/** A further signal more than a second later ends the process immediately. SIGHUP is that of a terminal that closes. */
function stopOnSignals(): Stop {
  const stop = new AbortController()
  let firstAt = 0
  function onSignal(signal: NodeJS.Signals): void {
    if (!stop.signal.aborted) {
      firstAt = performance.now()
      stop.abort(signal)
    } else if (performance.now() - firstAt > SAME_SIGNAL_MS) process.exit(1)
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  return {
    signal: stop.signal,
    now(reason) {
      // A service manager can signal all processes of a group together.
      if (!stop.signal.aborted) firstAt = performance.now()
      stop.abort(reason)
    },
  }
}

/**
 * No request caught it, so nothing is known about the state of the process (ASVS 16.5.4). Node's own report on standard
 * error is no log line, and has the values that a database error quotes.
 */
function endOnExceptions(logStream: LogStream): void {
  // Whatever LOG_LEVEL is: a process never ends without a reason.
  const log = createLog('fatal', logStream)
  process.on('uncaughtException', (error: unknown, origin) => {
    log.fatal({ err: error, origin }, 'exception outside a request')
    void logStream.end().finally(() => process.exit(1))
  })
}

async function run(system: System, logStream: LogStream, stop: Stop): Promise<void> {
  const giveUp = () => setTimeout(() => process.exit(1), EXIT_DEADLINE_MS).unref()
  stop.signal.addEventListener('abort', giveUp)
  let noteLostConnection = (error: Error) => console.error(`A database connection was lost: ${error.message}`)
  const opened = await open(process.env, system, {
    onIdleError: (error) => noteLostConnection(error),
    signal: stop.signal,
  })
  const log = createLog(opened.config.logLevel, logStream)
  const context = { ...opened, system, logStream, log, stop }
  try {
    // Before anything is migrated, or served.
    if (opened.config.hasPages) await findPages()
    stop.signal.throwIfAborted()
    const service = await (cluster.isWorker ? startWorker(context) : startMachine(context))
    stop.signal.removeEventListener('abort', giveUp)
    noteLostConnection = (error) => log.warn({ err: error }, 'connection lost')
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
    log.info({ signal: stop.signal.reason }, 'draining')
    setTimeout(() => process.exit(1), drainDelayOf(opened.config) + EXIT_DEADLINE_MS)
    await service.drain()
  } finally {
    await opened.connection.close()
  }
}

/** `drain` resolves when all that has begun is finished. */
interface Service {
  drain(): Promise<void>
}

async function startWorker(context: Context): Promise<Service> {
  const { config, stop } = context
  const registry = createRegistry()
  showProcess(registry, 'worker', context.connection)
  const end = openWorkerEnd({ registry, onEnd: stop.now })
  const serving = await startServing({ ...context, registry })
  end.serving(serving)
  // Without its primary it leaves at once: what starts the service again needs the port.
  return { drain: () => serving.drain(end.hasPrimary() ? drainDelayOf(config) : 0) }
}

function drainDelayOf({ drainDelaySeconds }: Config): number {
  return drainDelaySeconds * 1000
}

/** Starts what a machine has once, and what answers requests: this process, or its workers. */
async function startMachine(context: Context): Promise<Service> {
  const { config, connection, logStream, log, stop } = context
  const registry = config.workers > 1 ? new Registry() : createRegistry()
  const workers = config.workers > 1 ? prepareWorkers(context, registry) : null
  showBuild(registry)
  showProcess(registry, 'primary', connection)
  showLog(registry, logStream)
  const metrics = () => workers?.metrics(registry) ?? registry.metrics()
  const ops = buildOps({ connection, registry, metrics })
  const opsUrl = await listenAs('OPS_', config.opsListen, (place) => ops.listen(place))
  await waitForDatabase(connection.health, { signal: stop.signal, say: console.error })
  await requireSessionPooling(connection.db)
  await migrate(connection.maintenance, console.error)
  stop.signal.throwIfAborted()

  const ofDatabase = [await warnOfConnections(config, connection), await warnOfCollation(connection.health)]
  for (const warning of [...config.warnings, ...ofDatabase.flat()]) log.warn(warning)
  const demo = config.databaseUrl ? null : await openDemo(context)
  log.info(`Operations listener at ${opsUrl}`)
  stop.signal.throwIfAborted()
  await listenAs('', config.listen, findFreePort)
  await listenAs('PLATFORM_', config.platformListen, findFreePort)
  const serving = await (workers
    ? startWorkers(workers, stop, config)
    : startServing({ ...context, registry }))
  const background = startBackground({ ...context, registry, db: connection.db })
  ops.serve(serving.isServing)
  logStream.flush()
  if (demo) console.log(welcome(serving.url, demo))
  return {
    async drain() {
      ops.drain()
      await Promise.all([serving.drain(drainDelayOf(config)), background.stop()])
      await ops.close()
    },
  }
}

async function openDemo({ config, connection: { db }, system }: Context) {
  return await openDemoCompany(config.dataDir, { db, config, hasher: await createPasswordHasher(), system })
}

function prepareWorkers(context: Context, registry: Registry): Workers {
  const { config, env, databaseUrl } = context
  // As many passwords at a time as there are cores; one thread is left for other work.
  const hashes = Math.min(availableParallelism(), config.threads - 1)
  const envs = Array.from({ length: config.workers }, (_, n) => {
    const share = Math.floor(hashes / config.workers) + (n < hashes % config.workers ? 1 : 0)
    const threads = String(Math.max(1, share) + 1)
    // PUBLIC_URL contains PORT by default, and only the first worker gets 0: issuers would differ.
    const shared = { PUBLIC_URL: config.publicUrl, ...(!config.databaseUrl && { DATABASE_URL: databaseUrl }) }
    return { ...env, ...shared, UV_THREADPOOL_SIZE: threads }
  })
  const workers = createWorkers({ ...context, registry, envs })
  process.on('exit', () => {
    // If this process fails, the workers notice, and drain.
    if (context.stop.signal.aborted) workers.kill()
  })
  return workers
}

/** @throws the reason of `stop` if it comes before a worker serves, or an error of the start */
async function startWorkers(
  workers: Workers,
  { signal }: Stop,
  { listen, platformListen }: Config,
): Promise<Serving> {
  const starting = workers.start({ PORT: listen.port, PLATFORM_PORT: platformListen.port })
  const urls = await Promise.race([starting, once(signal, 'abort').then(() => null)])
  if (!urls || signal.aborted) {
    await workers.drain()
    throw signal.reason
  }
  return { ...urls, isServing: workers.isServing, drain: workers.drain }
}

async function warnOfConnections(
  { workers, databasePoolSize }: Config,
  { db }: Pick<Connection, 'db'>,
): Promise<string[]> {
  // The primary has as many at most, for mail and housekeeping, and two of its own.
  const most = (workers === 1 ? 1 : workers + 1) * databasePoolSize + workers * AUDIT_POOL_SIZE + 2
  const capacity = await readConnectionCapacity(db)
  if (capacity === null || most <= capacity) return []
  return [
    `WORKERS=${workers} with DATABASE_POOL_SIZE=${databasePoolSize} can open ${most} connections, and Postgres has ${capacity}: ` +
      'set one of them lower, or max_connections of Postgres higher',
  ]
}

const stop = stopOnSignals()
const logStream = createLogStream()
process.on('exit', logStream.flush)
endOnExceptions(logStream)
try {
  await run(realSystem, logStream, stop)
} catch (error) {
  // A start that was stopped has not failed, whatever was broken off.
  if (!stop.signal.aborted) {
    console.error(explain(error) ?? error)
    process.exitCode = 1
  }
}
await logStream.end()
process.exit()
