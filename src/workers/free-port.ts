import { once } from 'node:events'
import { createServer } from 'node:net'

/** Any for 0. What listens shares its port, so it would not notice that another service has it. @throws with the code EADDRINUSE */
export async function findFreePort(address: { host: string; port: number }): Promise<number> {
  const probe = createServer().listen(address)
  await once(probe, 'listening')
  const bound = probe.address()
  await once(probe.close(), 'close')
  return typeof bound === 'object' && bound ? bound.port : address.port
}
