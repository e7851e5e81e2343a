import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Place } from './places.ts'

/** A way to a TCP server on which bytes can be held up in both directions, without anybody being told. */
export async function openProxy(host: string, port: number, place: Place = { host: '127.0.0.1', port: 0 }) {
  const sockets = new Set<Socket>()
  let isFrozen = false
  const server = createServer((near) => {
    const far = connect(port, host)
    for (const socket of [near, far]) {
      sockets.add(socket)
      // Both ends close together.
      socket
        .on('error', () => {})
        .on('close', () => {
          sockets.delete(socket)
          near.destroy()
          far.destroy()
        })
    }
    near.on('data', (bytes) => far.write(bytes))
    far.on('data', (bytes) => near.write(bytes))
    if (isFrozen) for (const socket of [near, far]) socket.pause()
  }).listen(place)
  await once(server, 'listening')
  const address = server.address()
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  return {
    host: place.host,
    port: address.port,
    freeze() {
      isFrozen = true
      for (const socket of sockets) socket.pause()
    },
    thaw() {
      isFrozen = false
      for (const socket of sockets) socket.resume()
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
