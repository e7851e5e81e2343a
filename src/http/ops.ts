import { setTimeout as sleep } from 'node:timers/promises'
import fastify from 'fastify'
import { Gauge, Registry } from 'prom-client'
import manifest from '../../package.json' with { type: 'json' }
import type { Connection } from '../database/connect.ts'
import { pendingMigrations } from '../database/migrate.ts'
import { isSettled } from '../database/start.ts'
import { Problem, statusOf, toReply } from '../errors.ts'
import { toProblem } from './problems.ts'

/** A 503 says more than a probe that times out. */
const PROBE_MS = 1_000

interface OpsOptions {
  connection: Connection
  registry: Registry
  metrics(): Promise<string>
}

export function buildOps({ connection, registry, metrics }: OpsOptions) {
  const app = fastify()
  let phase: 'starting' | 'serving' | 'draining' = 'starting'
  let checking: Promise<string | null> | undefined
  let migrated = false
  let isServing = () => false

  async function checkDatabase(): Promise<string | null> {
    try {
      // A migration that is added while this process runs concerns only the next process.
      if (!migrated) migrated = (await pendingMigrations(connection.health)).length === 0
      if (!migrated) return 'migrations pending'
      return (await isSettled(connection.health)) ? null : 'the database was restored: run admin restored'
    } catch {
      return 'database unavailable'
    }
  }

  /** Null if this instance can serve requests. Concurrent probes share one check. */
  async function fault(): Promise<string | null> {
    if (phase !== 'serving') return phase
    if (!isServing()) return 'no worker'
    checking ??= checkDatabase().finally(() => {
      checking = undefined
    })
    return await Promise.race([checking, sleep(PROBE_MS, 'database unavailable', { ref: false })])
  }

  new Gauge({
    name: 'gatehouse_ready',
    help: '1 if /readyz returns 200, otherwise 0',
    registers: [registry],
    async collect() {
      this.set((await fault()) ? 0 : 1)
    },
  })
  app.get('/livez', async () => ({ status: 'ok', version: manifest.version }))
  app.get('/readyz', async (_request, reply) => {
    const reason = await fault()
    reply.code(reason ? 503 : 200)
    return reason ? { status: 'not ready', reason } : { status: 'ok' }
  })
  app.get('/metrics', async (_request, reply) => {
    reply.type(Registry.PROMETHEUS_CONTENT_TYPE)
    return await metrics()
  })
  app.setErrorHandler((error, request, reply) => {
    const problem = toProblem(error)
    reply.code(statusOf(problem.code)).type('application/problem+json; charset=utf-8')
    reply.send(toReply(problem, request.id))
  })
  app.setNotFoundHandler(() => {
    throw new Problem('not_found', 'This path does not exist. Check the URL.')
  })
  return Object.assign(app, {
    serve(check: () => boolean) {
      isServing = check
      phase = 'serving'
    },
    drain() {
      phase = 'draining'
    },
  })
}
