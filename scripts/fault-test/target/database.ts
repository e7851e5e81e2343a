import { randomBytes } from 'node:crypto'
import { chmod, mkdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { startEmbeddedPostgres } from '../../../src/local/postgres/server.ts'
import type { Place } from '../../kit/places.ts'
import { openConnection, runStatement } from '../../kit/postgres.ts'
import { childrenOf, findPostmaster, sendSignal } from '../../kit/processes.ts'

/** A Postgres of its own, with fsync as in production, whose processes can be killed, stopped and started again. */
export interface Database {
  /** Without the proxy: of operators. */
  url(): string
  place(): Place
  /** To all of its processes. */
  signal(signal: NodeJS.Signals): void
  /** Ends it in order. */
  stop(): Promise<void>
  /** After a stop or a kill. Its port can be another one. */
  start(): Promise<void>
  /** Resolves when it answers; starts it if it has ended by itself. */
  recover(): Promise<void>
  /** On a connection of its own, which ends with the work. */
  use<T>(work: (connection: pg.Client) => Promise<T>): Promise<T>
}

/** Two instances with two workers can open 64 connections. */
export const MAX_CONNECTIONS = 100
const PATIENCE_MS = 60_000
const LOOK_MS = 100
const SETTINGS = { max_connections: String(MAX_CONNECTIONS), max_wal_size: '128MB' }

export async function openDatabase(folder: string, cleanup: AsyncDisposableStack): Promise<Database> {
  await mkdir(folder)
  // When started by root, Postgres runs as another user, who must reach its data.
  await chmod(folder, 0o711)
  const launch = () => startEmbeddedPostgres({ dataDir: folder, randomBytes, settings: SETTINGS })
  let starting = launch()
  cleanup.defer(async () => {
    // Whatever a fault does to it just now.
    signal('SIGCONT')
    const last = await starting.catch(() => null)
    await last?.stop()
  })
  let server = await starting
  async function start(): Promise<void> {
    if (cleanup.disposed) throw new Error('the run has ended')
    starting = launch()
    server = await starting
  }
  function signal(name: NodeJS.Signals): void {
    const main = findPostmaster(folder)
    // The main process first, so that it starts no others meanwhile.
    for (const pid of [main, ...childrenOf(main)]) if (pid !== undefined) sendSignal(pid, name)
  }
  async function recover(): Promise<void> {
    for (
      const deadline = performance.now() + PATIENCE_MS;
      performance.now() < deadline;
      await sleep(LOOK_MS)
    ) {
      if (findPostmaster(folder) === undefined) await start()
      const answers = await runStatement(server.url, 'select').then(
        () => true,
        () => false,
      )
      if (answers) return
    }
    throw new Error('Postgres does not come back')
  }
  return {
    recover,
    url: () => server.url,
    place() {
      const { hostname, port } = new URL(server.url)
      return { host: hostname, port: Number(port) }
    },
    signal,
    stop: () => server.stop(),
    start,
    async use(work) {
      const connection = await openConnection(server.url)
      connection.on('error', () => {})
      try {
        return await work(connection)
      } finally {
        await connection.end().catch(() => {})
      }
    },
  }
}
