import { once } from 'node:events'
import { createServer } from 'node:net'

interface HostAndPort {
  host: string
  port: number
}

/** A listener that could not be opened. Its message names the variables. */
export class ListenError extends Error {
  override name = 'ListenError'
}

/** `listener` is how its variables begin. @throws ListenError */
export async function listenAs<T>(
  listener: '' | 'OPS_' | 'PLATFORM_',
  at: HostAndPort,
  listen: (at: HostAndPort) => Promise<T>,
): Promise<T> {
  try {
    return await listen(at)
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const variables = `${listener}HOST=${at.host} and ${listener}PORT=${at.port}`
    const remedy = `Set ${listener}HOST to an IP address of this machine, without brackets, and ${listener}PORT to a free port.`
    throw new ListenError(`Cannot listen at ${variables}: ${reason}. ${remedy}`, { cause: error })
  }
}

/** Any for 0. What listens shares its port, so it would not notice that another service has it. @throws with the code EADDRINUSE */
export async function findFreePort(at: HostAndPort): Promise<number> {
  const probe = createServer().listen(at)
  await once(probe, 'listening')
  const bound = probe.address()
  await once(probe.close(), 'close')
  return typeof bound === 'object' && bound ? bound.port : at.port
}
