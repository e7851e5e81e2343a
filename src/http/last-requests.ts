import type { Server } from 'node:http'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

const LONGEST_ARRIVAL_MS = 1_000

/**
 * Runs after the signal to stop and before the listener closes: takes requests for `delayMs`, and then all that were
 * sent until now. Otherwise connections that wait to be accepted would be reset, and so would those whose request is
 * not read yet, since they count as idle.
 */
export async function takeLastRequests(server: Server, delayMs: number): Promise<void> {
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
    // A turn of the event loop accepts some connections, and reads from all that were accepted before.
    await nextTurn()
    await nextTurn()
  } while (accepted > before && performance.now() < deadline)
  server.off('connection', count)
}
