import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import type { Config } from './config.ts'
import type { Connection } from './database/connect.ts'
import { migrate } from './database/migrate.ts'
import { requireSessionPooling } from './database/pooler.ts'
import { waitForDatabase } from './database/wait.ts'
import { type Acceptors, createAcceptors } from './http/acceptors.ts'
import { takeLastRequests } from './http/last-requests.ts'
import { createLogStream, type LogStream } from './http/log-stream.ts'
import { createRegistry } from './http/metrics.ts'
import { buildOps } from './http/ops.ts'
import { createLimitedHasher } from './limits/hashing.ts'
import { openDemoCompany, welcome } from './local/demo-company.ts'
import { pruneAcrossCompanies } from './operator/housekeeping.ts'
import { explain, type Opened, open } from './startup.ts'
import { randomFraction, realSystem, type System } from './system.ts'

/**
 * The process. It opens configuration, database, app and listeners, in this order, and serves until a signal
 * asks it to stop. Then it drains: it takes requests for a while longer, finishes what has begun, and exits.
 */

/** A terminal and npm both pass Ctrl-C on. Signals within this time count as one. */
const SAME_SIGNAL_MS = 1_000
const DRAIN_DEADLINE_MS = 8_000
const EXIT_DEADLINE_MS = 9_500
const PRUNE_EVERY_MS = 3_600_000

interface Service {
  app: FastifyInstance
  acceptors: Acceptors
  ops: ReturnType<typeof buildOps>
  stopPruning(): void
}

/** Aborts at the first SIGTERM or SIGINT. A signal that comes more than a second later ends the process at once. */
function stopOnSignals(): AbortSignal {
  const stop = new AbortController()
  let firstAt = 0
  function onSignal(signal: NodeJS.Signals): void {
    if (!stop.signal.aborted) {
      firstAt = performance.now()
      stop.abort(signal)
    } else if (performance.now() - firstAt > SAME_SIGNAL_MS) process.exit(1)
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  return stop.signal
}

async function run(system: System, logStream: LogStream, stop: AbortSignal): Promise<void> {
  const giveUp = () => setTimeout(() => process.exit(1), EXIT_DEADLINE_MS).unref()
  stop.addEventListener('abort', giveUp)
  let noteLostConnection = (error: Error) => console.error(`A database connection was lost: ${error.message}`)
  const opened = await open(process.env, system, (error) => noteLostConnection(error))
  try {
    stop.throwIfAborted()
    const service = await serve(opened, system, logStream, stop)
    stop.removeEventListener('abort', giveUp)
    const { log } = service.app
    noteLostConnection = (error) => log.warn({ err: error }, 'connection lost')
    if (!stop.aborted) await once(stop, 'abort')
    log.info({ signal: stop.reason }, 'draining')
    await drain(service, opened.config.drainDelaySeconds * 1000)
  } finally {
    await opened.connection.close()
  }
}

/** @throws the reason of `stop` if the start is to be broken off */
async function serve(
  { config, connection }: Opened,
  system: System,
  logStream: LogStream,
  stop: AbortSignal,
): Promise<Service> {
  const { db } = connection
  // Passwords are hashed on libuv's threads. One thread is left for DNS look-ups and files.
  const hasher = await createLimitedHasher(Math.max(1, Math.min(availableParallelism(), config.threads - 1)))
  const registry = createRegistry()
  const ops = buildOps({
    connection,
    registry,
    hashesWaiting: () => hasher.waiting,
    logLinesLost: () => logStream.lost,
  })
  const opsUrl = await ops.listen(config.opsListen)
  await waitForDatabase(connection.health, { signal: stop, say: console.error })
  await requireSessionPooling(db)
  await migrate(connection.maintenance, console.error)
  stop.throwIfAborted()

  const app = await buildApp({ config, db, system, hasher, registry, logStream })
  const acceptors = createAcceptors(app)
  app.addHook('preClose', async () => {
    await takeLastRequests(app.server, config.drainDelaySeconds * 1000)
    acceptors.stop()
  })
  for (const warning of config.warnings) app.log.warn(warning)
  const demo = config.databaseUrl
    ? null
    : await openDemoCompany(config.dataDir, {
        db,
        hasher: hasher.inTurn({ network: 'local', isKnown: true }),
        system,
      })
  stop.throwIfAborted()
  app.log.info(`Operations listener at ${opsUrl}`)
  const url = await acceptors.listen(config.listen)
  ops.serve()
  logStream.flush()
  if (demo) console.log(welcome(url, demo))
  return { app, acceptors, ops, stopPruning: startPruning(db, config, system, app.log) }
}

/** Finishes the requests in progress. The deadlines bound the wait for silent connections, and for all else. */
async function drain({ app, acceptors, ops, stopPruning }: Service, delayMs: number): Promise<void> {
  ops.drain()
  stopPruning()
  setTimeout(() => app.server.closeAllConnections(), delayMs + DRAIN_DEADLINE_MS)
  setTimeout(() => process.exit(1), delayMs + EXIT_DEADLINE_MS)
  await app.close()
  await acceptors.ended()
  await ops.close()
}

/** Prunes once an hour. The first time is random, so that instances do not prune all at once. */
function startPruning(
  db: Connection['db'],
  config: Config,
  system: System,
  log: FastifyBaseLogger,
): () => void {
  const stopping = new AbortController()
  async function prune(): Promise<void> {
    setTimeout(prune, PRUNE_EVERY_MS).unref()
    try {
      const pruned = await pruneAcrossCompanies({ db, config, system }, system.now(), stopping.signal)
      log.info({ pruned }, 'housekeeping')
    } catch (error) {
      log.warn({ err: error }, 'housekeeping failed')
    }
  }
  setTimeout(prune, PRUNE_EVERY_MS * randomFraction(system)).unref()
  return () => stopping.abort()
}

const stop = stopOnSignals()
const logStream = createLogStream()
process.on('exit', logStream.flush)
try {
  await run(realSystem, logStream, stop)
} catch (error) {
  // A start that was stopped has not failed, whatever the signal broke off.
  if (!stop.aborted) {
    console.error(explain(error) ?? error)
    process.exitCode = 1
  }
}
await logStream.end()
process.exit()
