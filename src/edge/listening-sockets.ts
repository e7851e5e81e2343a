import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer, type Socket } from 'node:net'

/** Of each port, in each process that answers. */
const SOCKETS = 8

/**
 * Node accepts one connection of a listening socket in each turn of its event loop. When hundreds come at once to a busy
 * machine, whose turns take 25 ms and more, the last would wait for seconds. Here the system shares them out between
 * more sockets.
 * @param server listens with `reusePort`
 * @returns what closes these sockets, and resolves when the last of their connections has ended
 */
export async function listenOnMoreSockets(server: Server): Promise<() => Promise<void>> {
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('the server listens at no port')
  const { address: host, port } = address
  limitTogether(server)
  const more = Array.from({ length: SOCKETS - 1 }, () =>
    // As Node's own HTTP server does.
    createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
      server.emit('connection', socket),
    ).listen({
      host,
      port,
      reusePort: true,
    }),
  )
  await Promise.all(more.map((each) => once(each, 'listening')))
  return async () => {
    await Promise.all(more.map((each) => once(each.close(), 'close')))
  }
}

/** Node counts the connections of each socket alone. */
function limitTogether(server: Server): void {
  let open = 0
  server.on('connection', (socket: Socket) => {
    open += 1
    socket.once('close', () => {
      open -= 1
    })
    if (open > server.maxConnections) socket.destroy()
  })
}
