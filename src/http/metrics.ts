import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { MeasureBatch } from '../database/batch.ts'

/**
 * What Prometheus reads: https://prometheus.io/docs/practices/naming. Our names begin with `gatehouse_`; those of
 * process and Node are the library's. No label has a value that a client can choose.
 */

/** Gauges that are named like counters. `nodejs_active_resources` says the same, by type. */
const MISNAMED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

export function createRegistry(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of MISNAMED) registry.removeSingleMetric(name)
  return registry
}

interface ProcessReadings {
  pool: { readonly totalCount: number; readonly idleCount: number; readonly waitingCount: number }
  hashesWaiting(): number
}

/** What is read at the moment of the scrape. */
export function showProcess(registry: Registry, { pool, hashesWaiting }: ProcessReadings): void {
  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name: `gatehouse_${name}`,
      help,
      registers: [registry],
      collect() {
        this.set(read())
      },
    })
  gauge('database_connections', 'Open connections to Postgres', () => pool.totalCount)
  gauge('database_connections_idle', 'Open connections that are not in use', () => pool.idleCount)
  gauge('database_connections_awaited', 'Requests that wait for a connection', () => pool.waitingCount)
  gauge('password_hashes_waiting', 'Sign-ins that wait for their password to be checked', hashesWaiting)
}

export function showLog(registry: Registry, log: { readonly lost: number }): void {
  new Counter({
    name: 'gatehouse_log_lines_lost_total',
    help: 'Log lines that were lost because their reader was too slow, was gone, or had no space',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(log.lost)
    },
  })
}

/** Wraps what runs a batch, and measures how many requests share a statement. */
export function createBatchMeasure(registry: Registry): MeasureBatch {
  const sizes = new Histogram({
    name: 'gatehouse_batch_size',
    help: 'Requests that were sent to Postgres as one statement, by batch',
    labelNames: ['batch'],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128],
    registers: [registry],
  })
  return (name, run) => {
    const size = sizes.labels(name)
    return (items) => {
      size.observe(items.length)
      return run(items)
    }
  }
}
