import { once } from 'node:events'
import { type Server as Acceptor, createServer } from 'node:net'
import type { FastifyInstance } from 'fastify'

/**
 * Accepts connections as fast as they come. A turn of the event loop accepts one connection of a listener, so a
 * stranger who opens more than there are turns would keep others waiting to be accepted. So there are several
 * listeners at the same port, between which Linux shares out the connections (SO_REUSEPORT).
 */

const ACCEPTORS = 32
/** Of each. A connection that finds no place tries again after a second, so a longer queue serves nobody. */
const BACKLOG = 32

export interface Acceptors {
  /** @returns the URL. @throws an error with the code EADDRINUSE if another process uses the port */
  listen(address: { host: string; port: number }): Promise<string>
  /** Accepts no more. Call it when the app stops listening. */
  stop(): void
  /** Resolves when the connections have ended that were accepted beside the app's own. */
  ended(): Promise<void>
}

/** `sharesPort`: other processes of the service listen at the port too. */
export function createAcceptors(app: FastifyInstance, { sharesPort = false } = {}): Acceptors {
  const others: Acceptor[] = []
  const ends: Promise<unknown>[] = []

  /** Takes the place of one more listener of the app's server. */
  async function openOther(address: { host: string; port: number }): Promise<void> {
    // As node:http accepts its own.
    const acceptor = createServer({ allowHalfOpen: true, noDelay: true })
    acceptor.on('connection', (socket) => app.server.emit('connection', socket))
    others.push(acceptor)
    await once(acceptor.listen({ ...address, backlog: BACKLOG, reusePort: true }), 'listening')
  }

  return {
    async listen(address) {
      if (process.platform !== 'linux') return await app.listen(address)
      if (!sharesPort) await findFreePort(address)
      const options = { ...address, backlog: BACKLOG, reusePort: true }
      const url = await app.listen(options)
      const bound = app.server.address()
      const port = typeof bound === 'object' && bound ? bound.port : address.port
      const { host } = address
      while (others.length < ACCEPTORS - 1) await openOther({ host, port })
      return url
    },
    stop() {
      for (const acceptor of others) ends.push(once(acceptor.close(), 'close'))
    },
    async ended() {
      await Promise.all(ends)
    },
  }
}

/**
 * The port itself, or any free one for 0. A port that is in use could otherwise be shared with another service of the
 * same user.
 * @throws an error with the code EADDRINUSE
 */
export async function findFreePort(address: { host: string; port: number }): Promise<number> {
  const probe = createServer().listen(address)
  await once(probe, 'listening')
  const bound = probe.address()
  await once(probe.close(), 'close')
  return typeof bound === 'object' && bound ? bound.port : address.port
}
