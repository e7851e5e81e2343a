import type { Server } from 'node:http'
import { availableParallelism } from 'node:os'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { buildApp } from '../app.ts'
import type { Connection } from '../database/connect.ts'
import { showHashing } from '../http/metrics.ts'
import { createLimitedHasher } from '../limits/admission.ts'

/** Longer than any request takes (http/deadline.ts). */
const DRAIN_DEADLINE_MS = 8_000
const LONGEST_ARRIVAL_MS = 1_000

type Options = Omit<Parameters<typeof buildApp>[0], 'db' | 'auditDb' | 'hasher'>

/** @throws the error of a port that is in use */
export async function startServing({ connection, ...options }: Options & { connection: Connection }) {
  const { config, registry } = options
  // One libuv thread stays free for DNS and files.
  const hasher = await createLimitedHasher(Math.max(1, Math.min(availableParallelism(), config.threads - 1)))
  showHashing(registry, hasher)
  const { db, auditDb } = connection
  const { app, platform } = await buildApp({ ...options, db, auditDb, hasher })
  let takingMs = 0
  for (const each of [app, platform]) {
    each.addHook('preClose', () => takeLastRequests(each.server, takingMs))
  }
  // On Linux, the kernel spreads connections over the workers' sockets. Elsewhere, the primary does.
  const shared = { reusePort: process.platform === 'linux' }
  const listenTextResolver = (url: string) => `Platform listener at ${url}`
  const platformUrl = await platform.listen({ ...config.platformListen, ...shared, listenTextResolver })
  const url = await app.listen({ ...config.listen, ...shared })
  return {
    platformUrl,
    url,
    isServing: () => true,
    async drain(delayMs: number) {
      takingMs = delayMs
      setTimeout(() => {
        for (const { server } of [app, platform]) server.closeAllConnections()
      }, delayMs + DRAIN_DEADLINE_MS)
      await Promise.all([app.close(), platform.close()])
    },
  }
}

/** Closing the listener resets connections that are not accepted yet, or look idle because their request is not read yet. */
async function takeLastRequests(server: Server, delayMs: number): Promise<void> {
  if (delayMs > 0) await sleep(delayMs)
  let accepted = 0
  const count = () => {
    accepted += 1
  }
  server.on('connection', count)
  const deadline = performance.now() + LONGEST_ARRIVAL_MS
  let before: number
  do {
    before = accepted
    // Each turn accepts some connections, and reads from connections that were accepted earlier.
    await nextTurn()
    await nextTurn()
  } while (accepted > before && performance.now() < deadline)
  server.off('connection', count)
}
