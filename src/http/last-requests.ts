import type { Server } from 'node:http'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

const LONGEST_ARRIVAL_MS = 1_000

/**
 * Runs between the wish to stop and the end of the listener: takes requests for `delayMs`, and then all that was
 * sent until now. Otherwise connections that wait to be accepted, and those whose request is not read yet and
 * which therefore count as idle, would be reset.
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
    // A turn of the event loop accepts one connection, and reads from all that were accepted before.
    await nextTurn()
    await nextTurn()
  } while (accepted > before && performance.now() < deadline)
  server.off('connection', count)
}
