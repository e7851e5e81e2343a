import { once } from 'node:events'
import type { Server } from 'node:http'
import { createServer } from 'node:net'
import { whenDone } from './cleanup.ts'

/** An additional listener, whose port is known before the service is configured. */
export async function openDoor() {
  // The same options as node:http uses.
  const door = createServer({ allowHalfOpen: true, noDelay: true }).listen(0, '127.0.0.1')
  await once(door, 'listening')
  whenDone(async () => void door.close())
  const address = door.address()
  if (typeof address !== 'object' || !address) throw new Error('a server has a port')
  return {
    origin: `http://localhost:${address.port}`,
    lead(server: Server) {
      door.on('connection', (socket) => server.emit('connection', socket))
    },
  }
}
