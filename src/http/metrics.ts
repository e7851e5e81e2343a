import { setTimeout as sleep } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import manifest from '../../package.json' with { type: 'json' }
import type { Connection } from '../database/connect.ts'

/** Named by https://prometheus.io/docs/practices/naming. No label has a value that a client can choose. */

export function createRegistry(): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  // Gauges that are named like counters. `nodejs_active_resources` has the same numbers by type.
  for (const kind of ['handles', 'requests', 'resources'])
    registry.removeSingleMetric(`nodejs_active_${kind}_total`)
  return registry
}

interface Shown {
  name: string
  help: string
  read: () => number
  labels?: Record<string, string>
  aggregator?: 'sum' | 'max'
}

function show(registry: Registry, { name, help, read, labels = {}, aggregator = 'sum' }: Shown): void {
  new Gauge({
    name: `gatehouse_${name}`,
    help,
    labelNames: Object.keys(labels),
    registers: [registry],
    aggregator,
    collect() {
      this.set(labels, read())
    },
  })
}

const READING_MS = 1_000

/** NaN while the database does not respond: operators need the other metrics most then. */
export function showStored(
  registry: Registry,
  name: string,
  help: string,
  read: () => Promise<number>,
): void {
  new Gauge({
    name: `gatehouse_${name}`,
    help,
    registers: [registry],
    async collect() {
      const reading = read().catch(() => Number.NaN)
      this.set(await Promise.race([reading, sleep(READING_MS, Number.NaN, { ref: false })]))
    },
  })
}

export function showProcess(
  registry: Registry,
  role: 'primary' | 'worker',
  { pool }: Pick<Connection, 'pool'>,
): void {
  const showConnections = (name: string, help: string, read: () => number) =>
    show(registry, { name: `database_connections${name}`, help, read })
  showConnections('', 'Open connections to Postgres', () => pool.totalCount)
  showConnections('_idle', 'Open connections that are not in use', () => pool.idleCount)
  showConnections('_awaited', 'Requests waiting for a connection', () => pool.waitingCount)
  const ofEach = 'Maximum number of open connections: DATABASE_POOL_SIZE of each process'
  showConnections('_max', ofEach, () => pool.options.max)
  const byRole = 'Resident memory by role: the primary, which can be the only process, and its workers'
  const labels = { role }
  show(registry, { name: 'resident_memory_bytes', help: byRole, read: process.memoryUsage.rss, labels })
  const ofHeap = 'Highest share of the heap limit in use by a process of each role'
  const readHeap = () => {
    const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
    return used / limit
  }
  show(registry, { name: 'heap_used_ratio', help: ofHeap, read: readHeap, labels, aggregator: 'max' })
}

export function showHashing(registry: Registry, hasher: { readonly waiting: number }): void {
  const help = 'Sign-ins waiting for their password check'
  show(registry, { name: 'password_hashes_waiting', help, read: () => hasher.waiting })
}

/** Once per machine, because metrics of processes are summed. */
export function showBuild(registry: Registry): void {
  const { version } = manifest
  const help = 'Always 1; the version is a label'
  show(registry, { name: 'build_info', help, read: () => 1, labels: { version } })
}

export function showLog(registry: Registry, log: { readonly lost: number }): void {
  new Counter({
    name: 'gatehouse_log_lines_lost_total',
    help: 'Log lines lost because their reader was too slow, was gone, or had no space',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(log.lost)
    },
  })
}
