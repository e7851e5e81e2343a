import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * The port itself, or any free one for 0. Workers share a port, so none of them would notice that another service of
 * the same user has it.
 * @throws an error with the code EADDRINUSE
 */
export async function findFreePort(address: { host: string; port: number }): Promise<number> {
  const probe = createServer().listen(address)
  await once(probe, 'listening')
  const bound = probe.address()
  await once(probe.close(), 'close')
  return typeof bound === 'object' && bound ? bound.port : address.port
}
