import { randomBytes } from 'node:crypto'
import { chmod, mkdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { startEmbeddedPostgres } from '../../../src/local/postgres/server.ts'
import type { Place } from '../../kit/places.ts'
import { runStatement } from '../../kit/postgres.ts'
import { childrenOf, findPostmaster, sendSignal } from '../../kit/processes.ts'

export type Database = Awaited<ReturnType<typeof openDatabase>>

const PATIENCE_MS = 60_000
const LOOK_MS = 100
const SETTINGS = { max_connections: '100', max_wal_size: '128MB' }

/** A separate Postgres, with fsync as in production, whose processes can be killed, stopped, and started again. */
export async function openDatabase(folder: string, cleanup: AsyncDisposableStack) {
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

  /** To all of its processes. */
  function signal(name: NodeJS.Signals): void {
    const main = findPostmaster(folder)
    // The main process first, so that it starts no others.
    for (const pid of [main, ...childrenOf(main)]) if (pid !== undefined) sendSignal(pid, name)
  }

  /** If it has ended. Its port can be a new one. Resolves when it answers. */
  async function start(): Promise<void> {
    for (const deadline = performance.now() + PATIENCE_MS; ; await sleep(LOOK_MS)) {
      if (cleanup.disposed) throw new Error('the run has ended')
      if (findPostmaster(folder) === undefined) {
        starting = launch()
        server = await starting
      }
      const answers = await runStatement(server.url, 'select').then(
        () => true,
        () => false,
      )
      if (answers) return
      if (performance.now() > deadline) throw new Error('Postgres does not come back')
    }
  }

  return {
    /** Without the proxy: of operators. */
    url: () => server.url,
    place(): Place {
      const { hostname, port } = new URL(server.url)
      return { host: hostname, port: Number(port) }
    },
    signal,
    /** Ends it in order. */
    stop: () => server.stop(),
    start,
  }
}
