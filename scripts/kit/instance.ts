import { childrenOf } from './processes.ts'
import { startService } from './service.ts'

/** An instance of the service that is stopped and started again, always with the same ports. */
export interface Instance {
  /** Its primary, and then its workers. */
  processes(): number[]
  /** With these variables besides its own. Nothing happens if it runs. */
  start(variables?: Record<string, string>): Promise<void>
  /** By SIGTERM; resolves when it has ended. */
  stop(): Promise<void>
}

const START_MS = 60_000

interface Options {
  /** Its files, a new one for each start, begin with this path. */
  log: string
  variables: Record<string, string>
  /** Whose service it is; this one by default. */
  project?: string | undefined
}

/** Not started yet. */
export function createInstance(
  { log, variables: own, project: folder }: Options,
  cleanup: AsyncDisposableStack,
): Instance {
  let running: { pid: number | undefined; end: AsyncDisposableStack } | null = null
  let starts = 0
  return {
    processes: () => (running?.pid === undefined ? [] : [running.pid, ...childrenOf(running.pid)]),
    async start(variables = {}) {
      // Again and again, as systemd does: it does not start without its database, nor while its former workers leave.
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
