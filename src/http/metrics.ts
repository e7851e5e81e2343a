import { setTimeout as sleep } from 'node:timers/promises'
import { getHeapStatistics } from 'node:v8'
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import manifest from '../../package.json' with { type: 'json' }
import type { Connection } from '../database/connect.ts'

/** Named by https://prometheus.io/docs/practices/naming. No label has a value that a client can choose. */

/** Gauges with names of counters. `nodejs_active_resources` says the same, by type. */
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

function showReading(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name: `gatehouse_${name}`,
    help,
    registers: [registry],
    collect() {
      this.set(read())
    },
  })
}

const READING_MS = 1_000

/** NaN while the database does not answer: then operators need the other metrics most. */
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

/** With several workers, what is shown of them and of their primary is the sum. */
export function showProcess(
  registry: Registry,
  role: 'primary' | 'worker',
  { pool }: Pick<Connection, 'pool'>,
): void {
  const show = (name: string, help: string, read: () => number) =>
    showReading(registry, `database_connections${name}`, help, read)
  show('', 'Open connections to Postgres', () => pool.totalCount)
  show('_idle', 'Open connections that are not in use', () => pool.idleCount)
  show('_awaited', 'Requests that wait for a connection', () => pool.waitingCount)
  show('_max', 'Connections that can be open: DATABASE_POOL_SIZE of each process', () => pool.options.max)
  const registers = [registry]
  new Gauge({
    name: 'gatehouse_resident_memory_bytes',
    help: 'Memory of all processes, by role: the primary, which is also the only one, and its workers',
    labelNames: ['role'],
    registers,
    collect() {
      this.set({ role }, process.memoryUsage.rss())
    },
  })
  new Gauge({
    name: 'gatehouse_heap_used_ratio',
    help: 'Heap in use, of what it can grow to, in the process of each role where it is most',
    labelNames: ['role'],
    registers,
    aggregator: 'max',
    collect() {
      const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics()
      this.set({ role }, used / limit)
    },
  })
}

export function showHashing(registry: Registry, hasher: { readonly waiting: number }): void {
  const help = 'Sign-ins that wait for their password to be checked'
  showReading(registry, 'password_hashes_waiting', help, () => hasher.waiting)
}

/** Once for a machine: a sum of versions would say nothing. */
export function showBuild(registry: Registry): void {
  const { version } = manifest
  const help = 'Always 1; the version of the program is a label'
  new Gauge({ name: 'gatehouse_build_info', help, labelNames: ['version'], registers: [registry] }).set(
    { version },
    1,
  )
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
