import { childrenOf } from './processes.ts'
import { startService } from './service.ts'

/** An instance of the service that keeps its ports when it is restarted. */
export interface Instance {
  /** The primary first, then its workers. */
  processes(): number[]
  /** Adds these variables to its own. Does nothing while it runs. */
  start(variables?: Record<string, string>): Promise<void>
  stop(): Promise<void>
}

const START_MS = 60_000

interface Options {
  /** The start of the path of its log files. Each start has a new one. */
  log: string
  variables: Record<string, string>
  project?: string | undefined
}

export function createInstance(
  { log, variables: own, project: folder }: Options,
  cleanup: AsyncDisposableStack,
): Instance {
  let running: { pid: number | undefined; end: AsyncDisposableStack } | null = null
  let starts = 0
  return {
    processes: () => (running?.pid === undefined ? [] : [running.pid, ...childrenOf(running.pid)]),
    async start(variables = {}) {
      // Retries, as systemd does: it cannot start without its database, or while its previous workers are ending.
      for (const deadline = performance.now() + START_MS; !running; ) {
        starts += 1
        const end = cleanup.use(new AsyncDisposableStack())
        const options = { variables: { ...own, ...variables }, logFile: `${log}-${starts}.log`, folder }
        try {
          running = { pid: (await startService(options, end)).pid, end }
        } catch (error) {
          if (performance.now() > deadline || cleanup.disposed) throw error
        }
      }
    },
    async stop() {
      const stopping = running
      running = null
      await stopping?.end.disposeAsync()
    },
  }
}
