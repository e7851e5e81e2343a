import cluster from 'node:cluster'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import { createPasswordHasher } from '../crypto/password.ts'
import { createSealer } from '../crypto/sealing.ts'
import type { Executor } from '../database/connect.ts'
import { warnOfCollation } from '../database/indexes.ts'
import { migrate } from '../database/migrate.ts'
import { AUDIT_POOL_SIZE } from '../database/settings.ts'
import { readConnectionCapacity, requireSessionPooling, waitForDatabase } from '../database/start.ts'
import { findPages } from '../http/built-pages.ts'
import { createLogStream, type LogStream } from '../http/log-stream.ts'
import { createLog, type Log } from '../http/logs.ts'
import { createRegistry, showBuild, showLog, showProcess } from '../http/metrics.ts'
import { buildOps } from '../http/ops.ts'
import { realSystem, type System } from '../system.ts'
import { addFirstKey } from '../token/key-rotation.ts'
import { startBackground } from './background.ts'
import { findFreePort, listenAs } from './listen.ts'
import { openDemoCompany, welcome } from './local/demo-company.ts'
import { startServing } from './serving.ts'
import { explain, type Opened, open } from './startup.ts'
import { createWorkers, openWorkerEnd } from './workers.ts'

/** Opens the configuration, the database, and the listeners, and serves until a signal. Then it finishes requests and exits. */

/** Ctrl+C can arrive twice, from the terminal and from npm. */
const SAME_SIGNAL_MS = 1_000
const EXIT_DEADLINE_MS = 9_500

interface Context extends Opened {
  system: System
  logStream: LogStream
  log: Log
  stop: ReturnType<typeof stopOnSignals>
}

/** A second signal, if it comes later, ends the process immediately. A closing terminal sends SIGHUP. */
function stopOnSignals() {
  const stop = new AbortController()
  let firstAt = 0
  /** Workers also get it from their primary. A service manager may signal all processes of the group. */
  function now(reason: string): void {
    if (!stop.signal.aborted) firstAt = performance.now()
    stop.abort(reason)
  }
  function onSignal(signal: NodeJS.Signals): void {
    if (stop.signal.aborted && performance.now() - firstAt > SAME_SIGNAL_MS) process.exit(1)
    now(signal)
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, onSignal)
  return { signal: stop.signal, now }
}

/** Outside a request, the state of the process is unknown (ASVS 16.5.4). Node's own report would quote database values. */
function endOnExceptions(logStream: LogStream): void {
  // LOG_LEVEL must not hide the reason.
  const log = createLog('fatal', logStream)
  process.on('uncaughtException', (error: unknown, origin) => {
    log.fatal({ err: error, origin }, 'exception outside a request')
    void logStream.end().finally(() => process.exit(1))
  })
}

async function run(system: System, logStream: LogStream, stop: Context['stop']): Promise<void> {
  const giveUp = () => setTimeout(() => process.exit(1), EXIT_DEADLINE_MS).unref()
  stop.signal.addEventListener('abort', giveUp)
  let noteLostConnection = (error: Error) => console.error(`A database connection was lost: ${error.message}`)
  const opened = await open(process.env, system, {
    onIdleError: (error) => noteLostConnection(error),
    signal: stop.signal,
  })
  if (!opened.config.databaseUrl) logStream.useText()
  const log = createLog(opened.config.logLevel, logStream)
  const context = { ...opened, system, logStream, log, stop }
  try {
    if (opened.config.hasPages) await findPages()
    stop.signal.throwIfAborted()
    const service = await (cluster.isWorker ? startWorker(context) : startMachine(context))
    stop.signal.removeEventListener('abort', giveUp)
    noteLostConnection = (error) => log.warn({ err: error }, 'database connection lost')
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
    log.info({ signal: stop.signal.reason }, 'draining')
    setTimeout(() => process.exit(1), opened.config.drainDelaySeconds * 1000 + EXIT_DEADLINE_MS)
    await service.drain()
  } finally {
    await opened.connection.close()
  }
}

async function startWorker(context: Context) {
  const registry = createRegistry()
  showProcess(registry, 'worker', context.connection)
  const end = openWorkerEnd({ registry, onEnd: context.stop.now })
  const serving = await startServing({ ...context, registry })
  end.serving(serving)
  const { drainDelaySeconds } = context.config
  // Without a primary there is no delay: the restarted service needs the port.
  return { drain: () => serving.drain(end.hasPrimary() ? drainDelaySeconds * 1000 : 0) }
}

async function startMachine(context: Context) {
  const { config, connection, system, logStream, log, stop } = context
  const { db } = connection
  const registry = config.workers > 1 ? new Registry() : createRegistry()
  const workers = config.workers > 1 ? prepareWorkers(context, registry) : null
  showBuild(registry)
  showProcess(registry, 'primary', connection)
  showLog(registry, logStream)
  const metrics = () => workers?.metrics(registry) ?? registry.metrics()
  const ops = buildOps({ connection, registry, metrics })
  const opsUrl = await listenAs('OPS_', config.opsListen, (place) => ops.listen(place))
  await waitForDatabase(connection.health, { signal: stop.signal, say: console.error })
  await requireSessionPooling(db)
  await migrate(connection.maintenance, console.error)
  await addFirstKey(db, { sealer: createSealer(config.masterKeys, system.randomBytes), system })
  stop.signal.throwIfAborted()

  const ofDatabase = [await warnOfConnections(config, db), await warnOfCollation(connection.health)]
  for (const warning of [...config.warnings, ...ofDatabase.flat()]) log.warn(warning)
  const demo = config.databaseUrl ? null : await openDemo(context)
  log.info(`Operations listener at ${opsUrl}`)
  stop.signal.throwIfAborted()
  await listenAs('', config.listen, findFreePort)
  await listenAs('PLATFORM_', config.platformListen, findFreePort)
  const ports = { PORT: config.listen.port, PLATFORM_PORT: config.platformListen.port }
  const serving = workers
    ? { ...workers, ...(await workers.start(ports)) }
    : await startServing({ ...context, registry })
  const background = startBackground({ ...context, registry, db })
  ops.serve(serving.isServing)
  if (demo) console.log(welcome(serving.url, demo))
  logStream.flush()
  return {
    async drain() {
      ops.drain()
      await Promise.all([serving.drain(config.drainDelaySeconds * 1000), background.stop()])
      await ops.close()
    },
  }
}

async function openDemo({ config, connection: { db }, system }: Context) {
  return await openDemoCompany(config.dataDir, { db, config, hasher: await createPasswordHasher(), system })
}

function prepareWorkers(context: Context, registry: Registry) {
  const { config, env, databaseUrl } = context
  const hashes = Math.min(availableParallelism(), config.threads - 1)
  const envs = Array.from({ length: config.workers }, (_, n) => {
    const share = Math.floor(hashes / config.workers) + (n < hashes % config.workers ? 1 : 0)
    const threads = String(Math.max(1, share) + 1)
    // The default PUBLIC_URL contains PORT, and only the first worker gets 0, so issuers would differ.
    const shared = { PUBLIC_URL: config.publicUrl, ...(!config.databaseUrl && { DATABASE_URL: databaseUrl }) }
    return { ...env, ...shared, UV_THREADPOOL_SIZE: threads }
  })
  const { signal } = context.stop
  const workers = createWorkers({ ...context, registry, envs, signal })
  // If this process crashes, the workers notice, and drain.
  process.on('exit', () => signal.aborted && workers.kill())
  return workers
}

async function warnOfConnections({ workers, databasePoolSize }: Config, db: Executor): Promise<string[]> {
  // The primary's jobs take at most one pool and two more connections.
  const most = (workers === 1 ? 1 : workers + 1) * databasePoolSize + workers * AUDIT_POOL_SIZE + 2
  const capacity = await readConnectionCapacity(db)
  if (capacity === null || most <= capacity) return []
  return [
    `WORKERS=${workers} with DATABASE_POOL_SIZE=${databasePoolSize} can open ${most} connections, but Postgres accepts ${capacity}: ` +
      'lower one of them, or raise max_connections in Postgres',
  ]
}

const stop = stopOnSignals()
const logStream = createLogStream()
process.on('exit', logStream.flush)
endOnExceptions(logStream)
try {
  await run(realSystem, logStream, stop)
} catch (error) {
  // A signal during the start is not a failure.
  if (!stop.signal.aborted) {
    console.error(explain(error) ?? error)
    process.exitCode = 1
  }
}
await logStream.end()
process.exit()
