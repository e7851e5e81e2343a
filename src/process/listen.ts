import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Config } from '../config/config.ts'

type HostAndPort = Config['listen']

export class StartError extends Error {
  override name = 'StartError'
}

/** @throws StartError that names the variables, which start with `listener` */
export async function listenAs<T>(
  listener: '' | 'OPS_' | 'PLATFORM_',
  at: HostAndPort,
  listen: (at: HostAndPort) => Promise<T>,
): Promise<T> {
  try {
    return await listen(at)
  } catch (error) {
    const reason = messageOf(error)
    const variables = `${listener}HOST=${at.host} and ${listener}PORT=${at.port}`
    const remedy = `Set ${listener}HOST to an IP address of this machine, without brackets, and ${listener}PORT to a free port.`
    throw new StartError(`Cannot listen at ${variables}: ${reason}. ${remedy}`, { cause: error })
  }
}

/** Our listeners share ports, so they would not notice a second service. @throws an error with the code EADDRINUSE */
export async function findFreePort(at: HostAndPort): Promise<number> {
  const probe = createServer().listen(at)
  await once(probe, 'listening')
  const bound = probe.address()
  await once(probe.close(), 'close')
  return typeof bound === 'object' && bound ? bound.port : at.port
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.trim() : String(error)
}
