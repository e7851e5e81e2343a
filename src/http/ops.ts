import fastify, { type FastifyInstance } from 'fastify'
import { Counter, Gauge, type Registry } from 'prom-client'
import { type Connection, ping } from '../database/connect.ts'
import { pendingMigrations } from '../database/migrate.ts'

interface OpsOptions {
  connection: Connection
  registry: Registry
  hashesWaiting: () => number
  logLinesLost: () => number
}

/** The second listener, for operators and their monitoring: liveness, readiness, metrics. */
export function buildOps({
  connection,
  registry,
  hashesWaiting,
  logLinesLost,
}: OpsOptions): FastifyInstance & { drain(): void } {
  const app = fastify()
  let draining = false
  let migrated = false

  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read())
      },
    })
  const { pool } = connection
  gauge('database_connections', 'Open connections to Postgres', () => pool.totalCount)
  gauge('database_connections_idle', 'Open connections that are not in use', () => pool.idleCount)
  gauge('database_connections_awaited', 'Requests that wait for a connection', () => pool.waitingCount)
  gauge('password_hashes_waiting', 'Sign-ins that wait for their password to be checked', hashesWaiting)

  new Counter({
    name: 'gatehouse_log_lines_lost_total',
    help: 'Log lines that were lost because their reader stood still, was gone, or had no space',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(logLinesLost())
    },
  })

  /** Why this instance cannot serve requests; null if it can. */
  async function fault(): Promise<string | null> {
    if (draining) return 'draining'
    try {
      // A migration that is added while this process runs concerns only the next process.
      if (migrated) await ping(connection.health)
      else migrated = (await pendingMigrations(connection.health)).length === 0
    } catch {
      return 'database unavailable'
    }
    return migrated ? null : 'migrations pending'
  }

  app.get('/livez', async () => ({ status: 'ok' }))
  app.get('/readyz', async (_request, reply) => {
    const reason = await fault()
    reply.code(reason ? 503 : 200)
    return reason ? { status: 'not ready', reason } : { status: 'ok' }
  })
  app.get('/metrics', async (_request, reply) => {
    reply.type(registry.contentType)
    return await registry.metrics()
  })
  return Object.assign(app, {
    drain() {
      draining = true
    },
  })
}
