import type { Socket } from 'node:net'
import { succeed } from '../aims.ts'
import { holdConnections } from '../generators/held-connections.ts'
import { getText } from '../generators/request-text.ts'
import { loopbackIpAddress } from '../networks.ts'
import type { Flood } from './flood.ts'

/** Connections that take a place and do next to nothing with it, twice as many as the service can have files. */

const MAX_FILES = 1_024
const CONNECTIONS = 2 * MAX_FILES
const ATTACKER_BLOCK = 4
const SLOW_MS = 1_000

export const silentFrom1 = connections('silent', 1, () => {})
export const silentFrom100 = connections('silent', 100, () => {})
export const slowSendingFrom1 = connections('slow-sending', 1, sendSlowly)
export const slowSendingFrom100 = connections('slow-sending', 100, sendSlowly)
export const slowReadingFrom1 = connections('slow-reading', 1, readSlowly)
export const slowReadingFrom100 = connections('slow-reading', 100, readSlowly)

function connections(what: string, count: number, onOpen: (socket: Socket) => void): Flood {
  const from = count === 1 ? 'one IP address' : `${count} IP addresses`
  return {
    about: `${CONNECTIONS.toLocaleString('en')} ${what} connections from ${from}, of a service with ${MAX_FILES.toLocaleString('en')} files`,
    aims: [
      succeed(0.98, 'sign-in, known network', 'sign-in, known device', 'sign-in, new network'),
      succeed(0.98, 'session check', 'signed event'),
    ],
    needsProxy: true,
    maxFiles: MAX_FILES,
    attack: ({ url }) =>
      holdConnections({
        url,
        count: CONNECTIONS,
        localAddressOf: (n) => loopbackIpAddress(ATTACKER_BLOCK, n % count),
        onOpen,
      }),
  }
}

/** A header a second. */
function sendSlowly(socket: Socket): void {
  socket.write('POST /api/auth/login HTTP/1.1\r\nHost: flood.example\r\n')
  const timer = setInterval(() => socket.write('X-Slow: 1\r\n'), SLOW_MS)
  socket.on('close', () => clearInterval(timer))
}

const LARGE_ANSWERS = getText('/api/openapi.json').repeat(8)

/** A piece a second of answers that are larger than what the system takes in meanwhile. */
function readSlowly(socket: Socket): void {
  socket.write(LARGE_ANSWERS)
  socket.on('data', () => {
    socket.pause()
    setTimeout(() => socket.resume(), SLOW_MS)
  })
}
